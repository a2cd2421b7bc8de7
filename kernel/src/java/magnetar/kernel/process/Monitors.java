package magnetar.kernel.process;

import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.sched.Fault;

/**
 * The monitors of a process: those on it and those that it has on others. A monitor is Erlang's one-way
 * watch. The Java monitor of a process is called its lock here.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A monitor fires at most once. The thread that removes it from the watcher's list {@code watching},
 *       holding the watcher's lock, decides the outcome. {@link #fire}, on the thread that announces the
 *       death, enqueues the message under that same lock; {@link #demonitor} enqueues nothing.
 *   <li>When {@code demonitor} has returned true, the message will never come. When it has returned false for
 *       a monitor of this process, the message has come: it is in the mailbox unless it was received before.
 *   <li>T1, the watcher, lists the monitor in its own list, then in the watched process's list. If the
 *       watched process dies in between, {@link #begin} sees that and fires with the reason {@code noproc}.
 *       If the watcher is killed in between, {@code begin} removes the monitor from the other list.
 * </ol>
 *
 * <p>The monitor of a {@link Calls.Standing call} is listed like any other. When it fires, the call gets the
 * notice, not the mailbox.
 *
 * <p>Source: Erlang's monitors. Difference: a signal acts at once, on the thread that sends it. Rejected:
 * lists that always exist, since there may be a million idle processes: {@link #slim} drops the empty ones.
 */
public final class Monitors {
    // Guarded by the lock of their process: the monitors of others on it, and its own.
    private SmallSet<Monitor> watchers;
    private SmallSet<Monitor> watching;

    private Monitors() {}

    // --- watching ----------------------------------------------------------------------------------------------------

    /**
     * Watches a process. Called by the watcher.
     *
     * @param object how the death notice names the process: its pid, or the name that was used
     * @param tag the first element of that notice; null for the usual {@code DOWN}
     * @param mode how the reference works as an address
     */
    public static Ref monitor(LocalProcess me, Pid watched, Object object, Object tag, Ref.Alias mode) {
        return monitor(me, watched, object, tag, mode, true);
    }

    /**
     * The same.
     *
     * @param waits whether it waits while the stream to the process's node has no room. A server that serves all nodes
     *     must not: one of them that is slow would hold it up
     */
    public static Ref monitor(LocalProcess me, Pid watched, Object object, Object tag, Ref.Alias mode, boolean waits) {
        InFlight.deliver(watched);
        LocalProcess p = ProcessTable.live(watched);
        Monitor m = make(me, p == null ? watched : p.pid(), object, tag, mode);
        if (p == null && watched.node() != 0) {
            Remote.monitor(me, m, Peers.of(watched), waits);
        } else if (keep(me, m)) {
            begin(me, m, p);
        }
        return m;
    }

    /** Watches the process that has a name on another node. Called by the watcher. */
    public static Ref monitor(LocalProcess me, RemoteName watched, Object tag, Ref.Alias mode) {
        return monitor(me, watched, tag, mode, true);
    }

    /** The same, with or without such a wait. */
    public static Ref monitor(LocalProcess me, RemoteName watched, Object tag, Ref.Alias mode, boolean waits) {
        Monitor m = new Monitor.Named(Refs.next(me.fiber()), Refs.creation(), me.pid(), Refs.youngest(me), watched, tag == null ? Dialect.get().down : tag);
        m.alias = mode;
        Remote.monitor(me, m, watched.peer(), waits);
        return m;
    }

    /**
     * Makes a monitor on a process that cannot be reached. It fires at once, with this reason. Called by the
     * watcher.
     */
    public static Ref monitorUnreachable(LocalProcess me, Pid stand, Object object, Object tag, Ref.Alias mode, Object reason) {
        Monitor m = make(me, stand, object, tag, mode);
        if (keep(me, m)) {
            fire(me, m, reason);
        }
        return m;
    }

    static Monitor make(LocalProcess me, Pid watched, Object object, Object tag, Ref.Alias mode) {
        Monitor m = new Monitor(Refs.next(me.fiber()), Refs.creation(), me.pid(), Refs.youngest(me), watched, object, tag == null ? Dialect.get().down : tag);
        m.alias = mode;
        return m;
    }

    /** Adds the monitor to the watcher's list; false if the watcher is dead. */
    static boolean keep(LocalProcess me, Monitor m) {
        synchronized (me) {
            if (me.isDead()) {
                return false;
            }
            Monitors of = of(me);
            of.watching = SmallSet.with(of.watching, m);
            return true;
        }
    }

    /** Adds the monitor, which is in the watcher's list already, to the list of the watched process. */
    static void begin(LocalProcess me, Monitor m, LocalProcess watched) {
        Simulated.switchPoint();
        if (watched == null || !watch(watched, m)) {
            InFlight.deliver(m.watched, me.pid());
            fire(me, m, Dialect.get().noproc);
        }
        Simulated.switchPoint();
        if (me.isDead()) {
            forget(m);
        }
    }

    /** Adds the monitor to the list of the watched process; false if that is dead. */
    static boolean watch(LocalProcess watched, Monitor m) {
        synchronized (watched) {
            if (watched.isDead() && !Fault.MONITOR_IGNORES_DEATH.isSeeded()) {
                return false;
            }
            Monitors of = of(watched);
            of.watchers = SmallSet.with(of.watchers, m);
            return true;
        }
    }

    /**
     * Under both locks, before the watched process runs: adds the monitor to both lists. If the watched
     * process is dead, only to the first; then the caller tells of the death.
     */
    static void tie(LocalProcess me, Monitor m, LocalProcess watched) {
        of(me).watching = SmallSet.with(of(me).watching, m);
        if (!watched.isDead()) {
            of(watched).watchers = SmallSet.with(of(watched).watchers, m);
        }
    }

    private static Monitors of(LocalProcess process) {
        if (process.monitors == null) {
            process.monitors = new Monitors();
        }
        return process.monitors;
    }

    // --- the end -----------------------------------------------------------------------------------------------------

    /**
     * Tells the watcher {@code me} that the watched process has died. Called by the thread that found out.
     */
    static void fire(LocalProcess me, Monitor m, Object why) {
        if (m.call() != null) {
            Simulated.note("down", me.pid(), why);
        }
        Simulated.switchPoint();
        if (Calls.isStanding(m)) {
            Calls.watchedDied(me, m, why);
            return;
        }
        Waiter answer = null;
        synchronized (me) {
            if (me.monitors != null && (SmallSet.contains(me.monitors.watching, m) || Fault.ENDED_MONITOR_FIRES.isSeeded())) {
                Node down = new Node(Dialect.codec().down(m.tag, m, m.object, why));
                answer = me.mailbox().pushSignal(down);
                endLocked(me, m); // after the push: if memory runs out there, the death is told again
                closeAlias(m);
            }
        }
        Delivery.wake(me, answer);
    }

    /** Ends a monitor; false if it had ended, or is not a monitor of this process. */
    public static boolean demonitor(LocalProcess me, Ref ref) {
        Fiber.current().enter();
        Monitor m = ref instanceof Monitor own ? own : find(me, ref);
        if (m == null) {
            return false;
        }
        InFlight.deliver(m.watched);
        boolean was;
        Simulated.switchPoint();
        synchronized (me) {
            was = endLocked(me, m);
            if (m.maker() == me.pid()) {
                closeAlias(m);
            }
        }
        if (was) {
            forget(m);
        }
        return was;
    }

    /** The monitor of this process with this reference, which was read from text or came back from another node; or null. */
    private static Monitor find(LocalProcess me, Ref ref) {
        synchronized (me) {
            for (Monitor m : watching(me)) {
                if (m.equals(ref)) {
                    return m;
                }
            }
            return null;
        }
    }

    private static void closeAlias(Monitor m) {
        if (m.alias == Ref.Alias.DEMONITOR || m.alias == Ref.Alias.REPLY_DEMONITOR) {
            m.alias = Ref.Alias.CLOSED;
        }
    }

    /** Under the lock of the watcher: removes the monitor from its list; false if it was not there. */
    static boolean endLocked(LocalProcess me, Ref m) {
        return me.monitors != null && SmallSet.remove(me.monitors.watching, m);
    }

    /** Removes the monitor from the list of the watched process. */
    static void forget(Monitor m) {
        LocalProcess p = m.watched.process();
        if (Calls.isStanding(m)) {
            Calls.forgotten(m);
        }
        if (p != null) {
            Simulated.switchPoint();
            synchronized (p) {
                if (p.monitors != null && SmallSet.remove(p.monitors.watchers, m) && p.fiber() == null) {
                    slim(p); // it has no fiber, is idle, and needs no empty list
                }
            }
        } else {
            Remote.forget(m);
        }
    }

    /** Under the lock of the process: drops empty lists. */
    static void slim(LocalProcess p) {
        if (p.monitors != null) {
            p.monitors.watchers = SmallSet.slim(p.monitors.watchers);
            p.monitors.watching = SmallSet.slim(p.monitors.watching);
            p.monitors = p.monitors.watchers == null && p.monitors.watching == null ? null : p.monitors;
        }
    }

    // --- views -------------------------------------------------------------------------------------------------------

    /** Under the lock of the process: the monitors of others on it. */
    static List<Monitor> watchers(LocalProcess p) {
        return p.monitors == null ? List.of() : SmallSet.list(p.monitors.watchers);
    }

    /** Under the lock of the process: its monitors on others. */
    static List<Monitor> watching(LocalProcess p) {
        return p.monitors == null ? List.of() : SmallSet.list(p.monitors.watching);
    }

    /** The monitors that are active now: each monitor itself, or the open call of a standing one. */
    static Stream<Monitor> active(List<Monitor> some) {
        return some.stream().map(Monitor::call).filter(Objects::nonNull);
    }

    /** The number of calls of this process that were neither answered nor given up. */
    public static int openCalls(LocalProcess me) {
        synchronized (me) {
            return (int) active(watching(me)).filter(Monitor::isAddress).count();
        }
    }
}
