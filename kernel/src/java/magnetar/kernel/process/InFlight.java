package magnetar.kernel.process;

import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;

/**
 * In-flight delivery: how signals get from their senders to processes. Outside of a simulation a signal takes
 * effect when it is sent. A simulation may delay it. Like Erlang, it keeps the order of the signals of one
 * sender to one receiver, and no other order.
 *
 * <p>Invariant: outside of a simulation nothing is allocated here, because a death is reported even when
 * memory has run out. So each method asks {@link Simulated#mayDelay} before it makes the delayed delivery.
 */
final class InFlight {
    private InFlight() {}

    /** The sender: the process of the fiber, else the fiber. */
    private static Object source(Fiber sender) {
        LocalProcess p = LocalProcess.of(sender);
        return p == null ? sender : p.pid();
    }

    // --- sending
    // -----------------------------------------------------------------------------------------------------

    /** Sends a message of the current fiber to an address of the process. */
    static void message(Fiber sender, LocalProcess receiver, Object to, Object message) throws InterruptedException {
        Object context = Traffic.sends(sender, to, message, sender.outgoing());
        if (!(Simulated.mayDelay() && delaysMessage(sender, receiver, to, message, context))) {
            Delivery.deliver(receiver, sender, to, message, context);
        }
    }

    /** False for a bounded mailbox, because its sender may have to wait, or may be refused. */
    private static boolean delaysMessage(Fiber sender, LocalProcess receiver, Object to, Object message, Object context) {
        Object from = source(sender);
        if (receiver.mailbox() instanceof BoundedMailbox && !(to instanceof Ref)) {
            deliver(from, receiver.pid());
            return false;
        }
        return delays(from, receiver.pid(), message, () -> arrive(sender, receiver, to, message, context));
    }

    private static void arrive(Fiber sender, LocalProcess receiver, Object to, Object message, Object context) {
        try {
            Delivery.deliver(receiver, sender, to, message, context);
        } catch (InterruptedException e) {
            throw new AssertionError(e); // only a bounded mailbox lets its sender wait
        }
    }

    /** Sends a message of the current fiber to which no bound applies. */
    static void control(Fiber sender, Object to, Object message) {
        Object context = Traffic.sends(sender, to, message, sender.outgoing());
        if (!(Simulated.mayDelay() && delays(source(sender), to, message, () -> Send.signal(to, message, context)))) {
            Send.signal(to, message, context);
        }
    }

    /**
     * Sends an exit signal of a process, or of a fiber that is not a process. With {@code overLink} it is the
     * signal of a dead process over its link.
     */
    static void exit(Object source, LocalProcess receiver, Object why, boolean overLink, Object context) {
        Pid from = source instanceof Pid pid ? pid : null;
        if (!(Simulated.mayDelay() && delays(source, receiver.pid(), why, () -> receiver.exit(from, why, overLink, context)))) {
            receiver.exit(from, why, overLink, context);
        }
    }

    /** Tells the watcher that the watched process is dead. */
    static void down(Pid dead, LocalProcess watcher, Monitor m, Object why) {
        if (!(Simulated.mayDelay() && m.call() != null && delays(dead, watcher.pid(), why, () -> Monitors.fire(watcher, m, why)))) {
            Monitors.fire(watcher, m, why);
        }
    }

    /** True if the signal arrives later. */
    private static boolean delays(Object from, Object to, Object what, Runnable arrival) {
        return !to.equals(from) && Simulated.delays(from, to, what, arrival);
    }

    // --- delivering what was sent before
    // -----------------------------------------------------------------------------

    /**
     * Delivers everything that the current fiber has sent to the process, before a request that takes effect
     * at once.
     */
    static void deliver(Pid to) {
        if (Simulated.mayDelay()) {
            deliver(source(Fiber.current()), to);
        }
    }

    /**
     * Delivers everything that was sent from one to the other, because the next signal takes effect at once.
     */
    static void deliver(Object from, Pid to) {
        Simulated.deliver(from, to);
    }
}
