package magnetar.kernel.process;

import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.fiber.PerEnvironment;

/** Finds processes by name or by pid, and lists all of them. */
public final class ProcessTable {
    /**
     * All processes of each simulation. The real environment uses the lists of fibers, of guests and of
     * passivated processes instead.
     */
    private static final PerEnvironment<Set<LocalProcess>> SIMULATED = PerEnvironment.ofSimulations(ConcurrentHashMap::newKeySet);

    private ProcessTable() {}

    /** Lists a new process, if it belongs to a simulation. */
    static void made(LocalProcess process) {
        Set<LocalProcess> simulated = SIMULATED.current();
        if (simulated != null) {
            simulated.add(process);
        }
    }

    /** Registers the name, or throws a misuse. */
    public static void register(Object name, Pid pid) {
        LocalProcess p = live(pid);
        String obstacle = p == null ? LocalProcess.NOT_ALIVE : p.register(name);
        if (obstacle != null) {
            endIfTold(pid);
        }
        refuseIf(obstacle, name, pid);
    }

    /** Ends the process of the current thread if it has this pid and was told to end: it has made no mistake. */
    private static void endIfTold(Pid pid) {
        LocalProcess me = LocalProcess.current();
        if (me != null && me.pid().equals(pid)) {
            me.fiber().check();
        }
    }

    static void refuseIf(String obstacle, Object name, Pid pid) {
        if (obstacle != null) {
            throw Dialect.codec().misuse("cannot-register",
                    "Cannot register " + Dialect.codec().text(name) + " for " + pid + ": " + obstacle, Map.of("name", name, "pid", pid));
        }
    }

    /** Frees the name; false if no process has it. */
    public static boolean unregister(Object name) {
        LocalProcess p = Names.find(name);
        return p != null && p.unregister(name);
    }

    /** The process with this name, or null. */
    public static Pid whereis(Object name) {
        LocalProcess p = Names.find(name);
        return p == null ? null : p.pid();
    }

    /** All names, unordered. */
    public static List<Object> names() {
        return Names.all();
    }

    /** The process of the pid, which may have been read from text; null if it is dead. */
    public static LocalProcess live(Pid pid) {
        LocalProcess p = pid.process();
        return p != null || pid.ended() != null || pid.creation() != Refs.creation() || pid.node() != 0 ? p : recognize(pid);
    }

    /** Searches all processes, once for each pid that was read from text. */
    private static LocalProcess recognize(Pid pid) {
        for (LocalProcess p : all()) {
            if (p.pid().equals(pid)) {
                pid.recognize(p.pid());
                return p;
            }
        }
        pid.recognize(new Pid.Ended(Dialect.get().noproc, null));
        return null;
    }

    /** Like {@link #live}, after everything has arrived that the current fiber has sent to the process. */
    public static LocalProcess reach(Pid pid) {
        InFlight.deliver(pid);
        return live(pid);
    }

    /**
     * All processes that are not dead. In a simulation: its own, ordered by pid. Elsewhere: those in no
     * simulation, unordered.
     */
    public static List<LocalProcess> all() {
        Set<LocalProcess> simulated = SIMULATED.current();
        if (simulated != null) {
            return live(simulated);
        }
        Set<LocalProcess> all = new LinkedHashSet<>(); // a process may change lists and be met twice
        Guests.each(p -> addLive(p, all));
        // Each list is read twice: a process is in at least one of them at each instant, but may change to
        // the other between two reads.
        for (int look = 0; look < 2; look++) {
            eachOnFiber(p -> addLive(p, all));
        }
        all.removeIf(p -> p.pid().creation() != Environment.REAL.creation());
        return List.copyOf(all);
    }

    private static List<LocalProcess> live(Set<LocalProcess> simulated) {
        return simulated.stream().filter(ProcessTable::isLive).sorted(Comparator.comparing(LocalProcess::pid)).toList();
    }

    /** All processes of this simulated environment that are not dead, ordered by pid. */
    public static List<LocalProcess> all(Environment simulated) {
        return live(SIMULATED.of(simulated));
    }

    /** Removes the processes of this simulated environment, which has ended, from the lists that hold those without a fiber of their own. */
    public static void forget(Environment simulated) {
        Set<LocalProcess> gone = SIMULATED.of(simulated);
        Passivated.removeAll(gone);
        Guests.removeAll(gone);
    }

    /**
     * How many processes there are, without those that threads are for a while. Approximate: one that is
     * passivated or taken up meanwhile may be counted twice, or not at all.
     */
    public static long count() {
        Set<LocalProcess> simulated = SIMULATED.current();
        long creation = Environment.current().creation();
        long[] count = {0};
        Consumer<LocalProcess> visit = p -> {
            if (!p.isGuest() && isLive(p) && p.pid().creation() == creation) {
                count[0]++;
            }
        };
        if (simulated != null) {
            simulated.forEach(visit);
        } else {
            eachOnFiber(visit);
        }
        return count[0];
    }

    /** Passes each process that has a fiber of its own, or is passivated, to the visitor, perhaps twice. */
    private static void eachOnFiber(Consumer<LocalProcess> visit) {
        Passivated.each(visit);
        Fibers.each(f -> {
            if (f.home() instanceof LocalProcess p) {
                visit.accept(p);
            }
        });
    }

    /** The passivated processes of this simulation, ordered by pid. */
    public static List<LocalProcess> atRest() {
        return SIMULATED.current().stream().filter(p -> p.pid().process() == p && p.mailbox() instanceof OpenMailbox open && open.holdsOneAtRest())
                .sorted(Comparator.comparing(LocalProcess::pid)).toList();
    }

    private static void addLive(LocalProcess p, Set<LocalProcess> all) {
        if (isLive(p)) {
            all.add(p);
        }
    }

    private static boolean isLive(LocalProcess p) {
        return p.pid().process() == p;
    }

    /** Waits at most so many nanoseconds until the process has ended. Returns how it ended, or null. */
    public static Pid.Ended join(Pid pid, long nanos) throws InterruptedException {
        LocalProcess p = live(pid);
        if (p != null && LocalProcess.current() == p) {
            throw Dialect.codec().misuse("join-self", "The process " + pid + " waits for its own end, which would never come: join it from another process.", Map.of("pid", pid));
        }
        if (p != null && !p.awaitEnd(nanos)) {
            return null;
        }
        Pid own = p == null ? pid : p.pid();
        return own.ended() == null ? new Pid.Ended(Dialect.get().noproc, null) : own.ended();
    }
}
