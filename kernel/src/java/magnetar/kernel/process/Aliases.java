package magnetar.kernel.process;

import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.sched.Fault;

/**
 * References that are addresses of the process that made them.
 *
 * <p>Invariant: what kind of address a reference is changes under the monitor of its maker, from open to closed once. A message is delivered under that monitor
 * only while it is open. So a reply that closes its alias is the only one, and none comes after {@link #close}.
 */
public final class Aliases {
    private Aliases() {}

    /** A new reference of the current process that is an address of it until it is closed, or with {@code once} until a message came. */
    public static Ref open(LocalProcess me, boolean once) {
        Ref ref = Refs.make(me);
        ref.alias = once ? Ref.Alias.REPLY : Ref.Alias.OPEN;
        return ref;
    }

    /** Closes the alias of this process; false if it was closed, or is not an alias of this process. */
    public static boolean close(LocalProcess me, Ref ref) {
        synchronized (me) {
            boolean open = isOpen(me, ref);
            if (open) {
                ref.alias = Ref.Alias.CLOSED;
            }
            return open;
        }
    }

    /** True if this process still waits for an answer at this alias of its own. */
    public static boolean isOpen(LocalProcess me, Ref ref) {
        synchronized (me) {
            return ref.maker() == me.pid() && ref.isAddress();
        }
    }

    /** A message to an alias of the process: delivered if that is open. No bound applies: it is an answer. */
    static void deliver(LocalProcess process, Ref alias, Object message) {
        boolean wasOpen = Fault.ALIAS_IS_CHECKED_BEFORE_LOCK.isPlanted() && alias.isAddress();
        Simulated.switchPoint();
        if (Calls.isCall(alias)) {
            Calls.deliver(process, alias, message);
            return;
        }
        Waiter answer;
        Monitor ended;
        synchronized (process) {
            if (!wasOpen && !alias.isAddress()) {
                return;
            }
            ended = alias.alias == Ref.Alias.REPLY_DEMONITOR && Monitors.endUnderMonitor(process, alias) ? (Monitor) alias : null;
            if (alias.alias == Ref.Alias.REPLY || alias.alias == Ref.Alias.REPLY_DEMONITOR) {
                alias.alias = Ref.Alias.CLOSED;
            }
            answer = process.mailbox().pushSignal(new Node(message));
        }
        Simulated.note("reply", process.pid(), message);
        if (ended != null) {
            Monitors.forget(ended);
        }
        Delivery.wake(process, answer);
    }
}
