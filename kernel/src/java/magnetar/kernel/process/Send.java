package magnetar.kernel.process;

import java.util.Map;
import magnetar.kernel.fiber.Exit;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;

/**
 * Sends messages and exit signals to processes.
 *
 * <p>Invariant: what an exiting process sends, in a shield, is dropped. For all others it is dead already.
 */
public final class Send {
    private Send() {}

    /** Sends to a pid, an alias or a name; returns the message. */
    public static Object send(Object to, Object message) throws InterruptedException {
        Fiber sender = Fiber.current();
        sender.enter();
        LocalProcess receiver = to instanceof Pid pid ? pid.process() : null;
        if (receiver == null) {
            receiver = find(to, message);
        }
        if (receiver != null && Simulated.loses(to, message)) {
            DeadLetters.add(to, message, null);
        } else if (receiver != null && mayBeHeard(sender, message, to)) {
            InFlight.message(sender, receiver, to, message);
        }
        return message;
    }

    /**
     * False if the sender is an exiting process in a shield, whose messages are dropped. Otherwise tells its
     * tracer.
     */
    private static boolean mayBeHeard(Fiber sender, Object message, Object to) {
        if (sender.cancellationScope() == null || !(LocalProcess.of(sender) instanceof LocalProcess p)) {
            return true;
        }
        if (isExiting(p)) {
            DeadLetters.add(to, message, null);
            return false;
        }
        p.tellSending(message, to);
        return true;
    }

    /** The process at the address; null if it is dead. */
    private static LocalProcess find(Object to, Object message) {
        if (to instanceof Pid pid) {
            LocalProcess p = ProcessTable.live(pid);
            if (p == null) {
                DeadLetters.add(pid, message, null);
            }
            return p;
        }
        if (to instanceof Ref ref) {
            LocalProcess p = maker(ref);
            if (p == null) {
                Traffic.loses(ref, message, null);
            }
            return p;
        }
        LocalProcess p = to == null ? null : Names.find(to);
        if (p == null) {
            throw badAddress(to == null ? "nil" : Dialect.codec().text(to));
        }
        return p;
    }

    private static RuntimeException badAddress(String to) {
        return Dialect.codec().misuse("no-such-name", "Cannot send to " + to + " at " + Caller.line()
                + ": it is no pid and no name that a process is registered under. Send to what `spawn` or `whereis` returned.",
                Map.of("to", to));
    }

    /** Sends a control message. No bound applies to it, and it is dropped if the process is dead. */
    public static void control(Pid to, Object message) {
        Fiber sender = Fiber.current();
        sender.enter();
        if (mayBeHeard(sender, message, to)) {
            InFlight.control(sender, to, message);
        }
    }

    /**
     * Sends a message to which no bound applies and for which no sender waits. If there is no process, it
     * becomes a dead letter without an error.
     */
    public static void signal(Object to, Object message) {
        signal(to, message, null);
    }

    /** The same, with the context values of the sender, or null. */
    static void signal(Object to, Object message, Object context) {
        if (to instanceof Ref alias) {
            LocalProcess p = maker(alias);
            if (p == null) {
                Traffic.loses(alias, message, context);
            } else {
                Aliases.deliver(p, alias, message, context);
            }
            return;
        }
        LocalProcess p = to instanceof Pid pid ? ProcessTable.live(pid) : to instanceof Address address ? processAt(address) : Names.find(to);
        if (p == null || !Delivery.deliverSignal(p, message, context)) {
            DeadLetters.add(to, message, context);
        }
    }

    /** The process that made the reference; null if it is dead. */
    private static LocalProcess maker(Ref ref) {
        return ref.maker() == null ? null : ref.maker().process();
    }

    private static LocalProcess processAt(Address address) {
        Pid found = address.find();
        return found == null ? null : ProcessTable.live(found);
    }

    /** Sends an exit signal. */
    public static void exit(Pid to, Object given) {
        Object reason = Dialect.codec().given(given);
        Fiber sender = Fiber.current();
        sender.enter();
        LocalProcess receiver = ProcessTable.live(to);
        LocalProcess from = LocalProcess.of(sender);
        if (receiver != null && !isExiting(from)) {
            InFlight.exit(from == null ? sender : from.pid(), receiver, reason, false, sender.outgoing());
            sender.check(); // the sender may have sent the signal to itself
        }
    }

    /** True for a process that does its clean-up in a shield. Whatever it sends is dropped. */
    static boolean isExiting(LocalProcess p) {
        return p != null && !p.isAlive();
    }

    /** The error that ends the current process, unless it is caught. */
    public static Error exit(Object reason) {
        return new Exit(Dialect.codec().given(reason));
    }
}
