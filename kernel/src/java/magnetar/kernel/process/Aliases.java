package magnetar.kernel.process;

import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.sched.Fault;

/**
 * References that are addresses of the process that made them.
 *
 * <p>Invariant: the alias of a reference changes under the lock of its maker, and goes from open to closed
 * once. A message is delivered under that lock, and only while the alias is open. So a reply that closes
 * its alias is the only one, and no message comes after {@link #close}.
 */
public final class Aliases {
    private Aliases() {}

    /**
     * Makes a reference that is an address of the current process until it is closed, or with {@code once}
     * until its first message.
     */
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

    /** True if this process still waits for an answer at this reference, which it made. */
    public static boolean isOpen(LocalProcess me, Ref ref) {
        synchronized (me) {
            return ref.maker() == me.pid() && ref.isAddress();
        }
    }

    /**
     * Delivers a message with these context values, or null, to an alias of the process, if the alias is open.
     * No bound applies, because most of these messages are answers.
     */
    static void deliver(LocalProcess process, Ref alias, Object message, Object context) {
        boolean wasOpen = Fault.ALIAS_IS_CHECKED_BEFORE_LOCK.isSeeded() && alias.isAddress();
        Simulated.switchPoint();
        if (!(Calls.isCall(alias) ? Calls.deliver(process, alias, message) : deliver(process, alias, message, context, wasOpen))) {
            Traffic.loses(alias, message, context);
        }
    }

    /** False if the alias is closed. */
    private static boolean deliver(LocalProcess process, Ref alias, Object message, Object context, boolean wasOpen) {
        Waiter answer;
        Monitor ended;
        synchronized (process) {
            if (!wasOpen && !alias.isAddress()) {
                return false;
            }
            ended = alias.alias == Ref.Alias.REPLY_DEMONITOR && Monitors.endLocked(process, alias) ? (Monitor) alias : null;
            boolean once = alias.alias == Ref.Alias.REPLY || alias.alias == Ref.Alias.REPLY_DEMONITOR;
            if (once) {
                alias.alias = Ref.Alias.CLOSED;
            }
            answer = process.mailbox().pushSignal(Node.of(message, once ? null : context)); // an answer has no context
        }
        Simulated.note("reply", process.pid(), message);
        if (ended != null) {
            Monitors.forget(ended);
        }
        return Delivery.wake(process, answer);
    }
}
