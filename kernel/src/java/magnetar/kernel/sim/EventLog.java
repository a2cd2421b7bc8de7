package magnetar.kernel.sim;

import java.util.ArrayList;
import java.util.List;
import java.util.function.LongFunction;
import magnetar.kernel.park.Parked;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.ProcessTable;

/**
 * The records of a run: its event log, and the fullest mailbox. Only accessed on the carrier, or by the fiber
 * that it runs.
 */
final class EventLog {
    private final Config config;
    private final Names names;
    private final List<Event> events = new ArrayList<>();
    private Run.Fullest fullest = new Run.Fullest(null, 0);

    EventLog(Config config, List<SimFiber> fibers, LongFunction<String> nodes) {
        this.config = config;
        this.names = new Names(fibers, nodes);
    }

    Names names() {
        return names;
    }

    List<Event> events() {
        return List.copyOf(events);
    }

    Run.Fullest fullest() {
        return fullest;
    }

    /** Called after an event of the process: records its mailbox if it is the fullest one so far. */
    void look(Pid pid) {
        LocalProcess p = ProcessTable.live(pid);
        int held = p == null ? 0 : p.mailboxInfo().messages();
        if (held > fullest.messages()) {
            fullest = new Run.Fullest(names.of(pid), held);
        }
    }

    void write(long step, long nanos, SimFiber fiber, String what, Object on, Object with) {
        events.add(new Event(step, nanos, fiber == null ? -1 : fiber.number, what, name(on), with == null ? null : config.text.apply(with)));
    }

    private String name(Object on) {
        return on instanceof Parked p ? p.reason().words() + (p.on() == null ? "" : " " + names.of(p.on())) : names.of(on);
    }
}
