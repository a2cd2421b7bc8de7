package magnetar.kernel.process;

import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.fiber.PerWorld;
import magnetar.kernel.fiber.World;

/** Finds processes: by name, by pid, all of them. */
public final class ProcessTable {
    /** All that a simulation has started; the real world has other lists, of those that are not dead. */
    private static final PerWorld<Set<LocalProcess>> SIMULATED = PerWorld.ofSimulations(ConcurrentHashMap::newKeySet);

    private ProcessTable() {}

    /** Lists a new process, if it is of a simulation. */
    static void made(LocalProcess process) {
        Set<LocalProcess> simulated = SIMULATED.current();
        if (simulated != null) {
            simulated.add(process);
        }
    }

    /** Registers the name, or throws a misuse. */
    public static void register(Object name, Pid pid) {
        LocalProcess p = live(pid);
        refuseIf(p == null ? "it is not alive" : p.register(name), name, pid);
    }

    static void refuseIf(String obstacle, Object name, Pid pid) {
        if (obstacle != null) {
            throw Words.language().misuse("cannot-register",
                    "Cannot register " + Words.language().text(name) + " for " + pid + ": " + obstacle + ".", Map.of("name", name, "pid", pid));
        }
    }

    /** Gives the name back; false if nobody has it. */
    public static boolean unregister(Object name) {
        LocalProcess p = Names.find(name);
        return p != null && p.unregister(name);
    }

    /** The process of that name, or null. */
    public static Pid whereis(Object name) {
        LocalProcess p = Names.find(name);
        return p == null ? null : p.pid();
    }

    /** All names, in no order. */
    public static List<Object> names() {
        return Names.all();
    }

    /** The process of the pid that is not dead, also of a pid that was read from text; or null. */
    public static LocalProcess live(Pid pid) {
        LocalProcess p = pid.process();
        return p != null || pid.ended() != null || pid.creation() != Refs.creation() || pid.node() != 0 ? p : recognize(pid);
    }

    /** Looks through all processes, once for each pid that was read from text. */
    private static LocalProcess recognize(Pid pid) {
        for (LocalProcess p : all()) {
            if (p.pid().equals(pid)) {
                pid.recognize(p.pid());
                return p;
            }
        }
        pid.bury(new Pid.Ended(Words.get().noproc, null));
        return null;
    }

    /** The same as {@link #live}, once everything has arrived that the current fiber has sent to it. */
    public static LocalProcess reach(Pid pid) {
        Ways.settle(pid);
        return live(pid);
    }

    /** All processes that are not dead, but for those of simulations, in no order; in a simulation its own, by their pids. */
    public static List<LocalProcess> all() {
        Set<LocalProcess> simulated = SIMULATED.current();
        Set<LocalProcess> all = new LinkedHashSet<>(); // one that goes to rest or comes back meanwhile may be met twice
        if (simulated != null) {
            addLive(simulated, all);
            return all.stream().sorted(Comparator.comparing(LocalProcess::pid)).toList();
        }
        addLive(Spawn.guests(), all);
        for (int look = 0; look < 2; look++) { // twice both: one is in either list at each instant, but may go to the other between two looks
            addLive(Resting.all(), all);
            Fibers.homes(home -> {
                if (home instanceof LocalProcess p && p.pid().process() == p) {
                    all.add(p);
                }
            });
        }
        all.removeIf(p -> p.pid().creation() != World.REAL.creation());
        return List.copyOf(all);
    }

    /** The processes of this simulation that are at rest, by their pids. */
    public static List<LocalProcess> atRest() {
        return SIMULATED.current().stream().filter(p -> p.pid().process() == p && p.mailbox() instanceof OpenMailbox open && open.holdsOneAtRest())
                .sorted(Comparator.comparing(LocalProcess::pid)).toList();
    }

    private static void addLive(Iterable<LocalProcess> some, Set<LocalProcess> all) {
        for (LocalProcess p : some) {
            if (p.pid().process() == p) {
                all.add(p);
            }
        }
    }

    /** Waits until the process has ended, for so many nanoseconds: how it ended, or null. */
    public static Pid.Ended join(Pid pid, long nanos) throws InterruptedException {
        LocalProcess p = live(pid);
        if (p != null && LocalProcess.current() == p) {
            throw Words.language().misuse("join-self", "The process " + pid + " waits for its own end, which would never come.", Map.of("pid", pid));
        }
        if (p != null && !p.awaitEnd(nanos)) {
            return null;
        }
        Pid own = p == null ? pid : p.pid();
        return own.ended() == null ? new Pid.Ended(Words.get().noproc, null) : own.ended();
    }
}
