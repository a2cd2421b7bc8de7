package magnetar.kernel.process;

import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.sched.Fault;

/**
 * Who watches a process, and whom it watches. A monitor is a one-way watch, as Erlang's; the Java monitor of a process is called its lock here.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A monitor fires at most once. It ends when it is taken out of the watcher's list {@code watching}, under the watcher's lock. The thread that takes it
 *       out decides: {@link #fire}, on the thread that tells of the death, puts the message into the watcher's mailbox under that same lock; {@link
 *       #demonitor} puts none. So when {@code demonitor} has returned true the message will never come. When it has returned false the message has come, unless
 *       the monitor was none of this process; it is in the mailbox if it was not received before.
 *   <li>The watcher lists a monitor before the watched process does. If the watched process dies in between, {@link #begin} finds that out and fires, with
 *       {@code noproc} for a reason. If the watcher is killed in between, {@code begin} takes the monitor out of the other list again.
 * </ol>
 *
 * <p>The monitor of a {@link Calls.Standing call} is listed like any other. It fires in its own way: the call gets the news, not the mailbox.
 *
 * <p>Source: Erlang's monitors. Difference: a signal acts at once, on the thread that sends it. Refused: lists that always exist, since there may be a million
 * processes at rest: {@link #slim} drops the empty ones.
 */
public final class Monitors {
    // Guarded by the lock of the process whose they are: the monitors of others on it, and its own.
    private Bag<Monitor> watchers;
    private Bag<Monitor> watching;

    private Monitors() {}

    // --- watching ----------------------------------------------------------------------------------------------------

    /**
     * Watches a process. Called by the watcher.
     *
     * @param object how the message of its end names it: the pid, or the name that was used
     * @param tag the first element of that message; null for the usual {@code DOWN}
     * @param mode what the reference is as an address
     */
    public static Ref monitor(LocalProcess me, Pid watched, Object object, Object tag, Ref.Alias mode) {
        Ways.settle(watched);
        LocalProcess p = ProcessTable.live(watched);
        Monitor m = make(me, p == null ? watched : p.pid(), object, tag, mode);
        if (keep(me, m)) {
            begin(me, m, p);
        }
        return m;
    }

    /** A monitor as {@link #monitor} makes it, of what cannot be reached: it fires at once, for this reason. Called by the watcher. */
    public static Ref monitorUnreachable(LocalProcess me, Pid stand, Object object, Object tag, Ref.Alias mode, Object reason) {
        Monitor m = make(me, stand, object, tag, mode);
        if (keep(me, m)) {
            fire(me, m, reason);
        }
        return m;
    }

    static Monitor make(LocalProcess me, Pid watched, Object object, Object tag, Ref.Alias mode) {
        Monitor m = new Monitor(Refs.next(me.fiber()), Refs.creation(), me.pid(), Refs.youngest(me), watched, object, tag == null ? Words.get().down : tag);
        m.alias = mode;
        return m;
    }

    /** Adds the monitor to those that this process has; false if this process is dead. */
    static boolean keep(LocalProcess me, Monitor m) {
        synchronized (me) {
            if (me.isDead()) {
                return false;
            }
            Monitors of = of(me);
            of.watching = Bag.with(of.watching, m);
            return true;
        }
    }

    /** Lists the monitor, which its watcher lists already, with the watched process. */
    static void begin(LocalProcess me, Monitor m, LocalProcess watched) {
        Simulated.switchPoint();
        if (watched == null || !watch(watched, m)) {
            Ways.settle(m.watched, me.pid());
            fire(me, m, Words.get().noproc);
        }
        Simulated.switchPoint();
        if (me.isDead()) {
            forget(m);
        }
    }

    private static boolean watch(LocalProcess watched, Monitor m) {
        synchronized (watched) {
            if (watched.isDead() && !Fault.MONITOR_IGNORES_DEATH.isPlanted()) {
                return false;
            }
            Monitors of = of(watched);
            of.watchers = Bag.with(of.watchers, m);
            return true;
        }
    }

    /** Under both locks, before the watched process runs: lists the monitor with both. Not with a watched one that is dead: its caller tells of the death. */
    static void tie(LocalProcess me, Monitor m, LocalProcess watched) {
        of(me).watching = Bag.with(of(me).watching, m);
        if (!watched.isDead()) {
            of(watched).watchers = Bag.with(of(watched).watchers, m);
        }
    }

    private static Monitors of(LocalProcess process) {
        if (process.monitors == null) {
            process.monitors = new Monitors();
        }
        return process.monitors;
    }

    // --- the end -----------------------------------------------------------------------------------------------------

    /** Tells the watcher {@code me} that the watched process has died. Called by the thread that has found out, whichever that is. */
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
            if (me.monitors != null && (Bag.contains(me.monitors.watching, m) || Fault.ENDED_MONITOR_FIRES.isPlanted())) {
                Node down = new Node(Words.language().down(m.tag, m, m.object, why));
                endUnderMonitor(me, m);
                closeAlias(m);
                answer = me.mailbox().pushSignal(down);
            }
        }
        Delivery.wake(me, answer);
    }

    /** Ends a monitor; false if it had ended, or is none of this process. */
    public static boolean demonitor(LocalProcess me, Ref ref) {
        Fiber.current().enter();
        if (!(ref instanceof Monitor m)) {
            return false;
        }
        Ways.settle(m.watched);
        boolean was;
        Simulated.switchPoint();
        synchronized (me) {
            was = endUnderMonitor(me, m);
            if (m.maker() == me.pid()) {
                closeAlias(m);
            }
        }
        if (was) {
            forget(m);
        }
        return was;
    }

    private static void closeAlias(Monitor m) {
        if (m.alias == Ref.Alias.DEMONITOR || m.alias == Ref.Alias.REPLY_DEMONITOR) {
            m.alias = Ref.Alias.CLOSED;
        }
    }

    /** Under the lock of the watcher: takes it out of the list; false if it was not in. */
    static boolean endUnderMonitor(LocalProcess me, Ref m) {
        return me.monitors != null && Bag.remove(me.monitors.watching, m);
    }

    /** Takes it out of the list of the watched process. */
    static void forget(Monitor m) {
        LocalProcess p = m.watched.process();
        if (Calls.isStanding(m)) {
            Calls.forgotten(m);
        }
        if (p != null) {
            Simulated.switchPoint();
            synchronized (p) {
                if (p.monitors != null && Bag.remove(p.monitors.watchers, m) && p.fiber() == null) {
                    slim(p); // it rests, and has no use of an empty list
                }
            }
        }
    }

    /** Under the lock of the process: drops what holds nothing. */
    static void slim(LocalProcess p) {
        if (p.monitors != null) {
            p.monitors.watchers = Bag.slim(p.monitors.watchers);
            p.monitors.watching = Bag.slim(p.monitors.watching);
            p.monitors = p.monitors.watchers == null && p.monitors.watching == null ? null : p.monitors;
        }
    }

    // --- views -------------------------------------------------------------------------------------------------------

    /** Under the lock of the process: the monitors of others on it. */
    static List<Monitor> watchers(LocalProcess p) {
        return p.monitors == null ? List.of() : Bag.list(p.monitors.watchers);
    }

    /** Under the lock of the process: its monitors on others. */
    static List<Monitor> watching(LocalProcess p) {
        return p.monitors == null ? List.of() : Bag.list(p.monitors.watching);
    }

    /** Those of them that stand for something now: the monitor itself, or the call that a standing monitor is open for. */
    static Stream<Monitor> active(List<Monitor> some) {
        return some.stream().map(Monitor::call).filter(Objects::nonNull);
    }

    /** How many calls of this process were neither answered nor given up. */
    public static int openCalls(LocalProcess me) {
        synchronized (me) {
            return (int) active(watching(me)).filter(Monitor::isAddress).count();
        }
    }
}
