package magnetar.kernel.process;

import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;

/**
 * The ways of signals from their senders to processes. A signal acts where it is sent; only a simulation may let one take longer, as Erlang allows,
 * which orders the signals of one sender to one receiver and no others. Asked only where {@link Simulated#mayDelay} says so.
 */
final class Ways {
    private Ways() {}

    /** Who sends: the process, else the fiber. */
    private static Object source(Fiber sender) {
        LocalProcess p = LocalProcess.of(sender);
        return p == null ? sender : p.pid();
    }

    /** True if the message arrives later. One to a mailbox with a bound does not: its sender may have to wait, or to be refused. */
    static boolean delays(Fiber sender, LocalProcess receiver, Object to, Object message) {
        Object from = source(sender);
        if (from == receiver.pid()) {
            return false;
        }
        if (receiver.mailbox() instanceof BoundedMailbox && !(to instanceof Ref)) {
            Simulated.settle(from, receiver.pid());
            return false;
        }
        return Simulated.delays(from, receiver.pid(), message, () -> arrive(sender, receiver, to, message));
    }

    private static void arrive(Fiber sender, LocalProcess receiver, Object to, Object message) {
        try {
            Delivery.deliver(receiver, sender, to, message);
        } catch (InterruptedException e) {
            throw new AssertionError(e); // only a mailbox with a bound lets its sender wait
        }
    }

    /** True if the signal arrives later. */
    static boolean delays(Fiber sender, Pid to, Object what, Runnable arrival) {
        Object from = source(sender);
        return !to.equals(from) && Simulated.delays(from, to, what, arrival);
    }

    /** Lets everything arrive that the current fiber has sent to it: it asks for something that is done at once. */
    static void settle(Pid to) {
        if (Simulated.mayDelay()) {
            Simulated.settle(source(Fiber.current()), to);
        }
    }
}
