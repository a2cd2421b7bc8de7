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

    /**
     * Sends to a pid, an alias, a name or a {@link RemoteName}; returns the message. Waits while a bounded mailbox
     * or the stream to another node has no room.
     */
    public static Object send(Object to, Object message) throws InterruptedException {
        Fiber sender = Fiber.current();
        sender.enter();
        LocalProcess receiver = to instanceof Pid pid ? pid.process() : null;
        if (receiver == null) {
            receiver = find(sender, to, message);
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

    /** The process at the address; null if it is dead, or if the message was sent to another node. */
    private static LocalProcess find(Fiber sender, Object to, Object message) throws InterruptedException {
        LocalProcess p = local(to);
        if (p == null && !leaves(sender, to, message)) {
            drop(to, message);
        }
        return p;
    }

    private static LocalProcess local(Object to) {
        return to instanceof Pid pid ? ProcessTable.live(pid) : to instanceof Ref ref ? maker(ref) : to == null ? null : Names.find(to);
    }

    /** Handles a message that no process gets. */
    private static void drop(Object to, Object message) {
        if (to instanceof Ref) {
            Traffic.loses(to, message, null); // an answer that comes too late
        } else if (to instanceof Pid) {
            DeadLetters.add(to, message, null);
        } else {
            throw badAddress(to == null ? "nil" : Dialect.codec().text(to));
        }
    }

    /** True if the address is of another node. Then the message is sent there. */
    private static boolean leaves(Fiber sender, Object to, Object message) throws InterruptedException {
        Peer peer = peer(to);
        if (peer != null && mayBeHeard(sender, message, to)) {
            Remote.message(sender, peer, to, message);
        }
        return peer != null;
    }

    /** The other node that an address belongs to, or null. */
    static Peer peer(Object to) {
        Pid pid = to instanceof Pid p ? p : to instanceof Ref alias ? alias.maker() : null;
        return to instanceof RemoteName there ? there.peer() : pid == null ? null : Peers.of(pid);
    }

    private static RuntimeException badAddress(String to) {
        return Dialect.codec().misuse("no-such-name", "Cannot send to " + to + " at " + Caller.line()
                + ": it is no pid and no name that a process is registered under. Send to what `spawn` or `whereis` returned.",
                Map.of("to", to));
    }

    /** Sends a control message to a pid or a {@link RemoteName}. No bound applies to it, and it is dropped if the process is dead. */
    public static void control(Object to, Object message) {
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
    static void signal(Object address, Object message, Object context) {
        Object to = address instanceof Address a ? a.find() : address;
        LocalProcess p = local(to);
        if (p == null) {
            signalElsewhere(to == null ? address : to, message, context);
        } else if (to instanceof Ref alias) {
            Aliases.deliver(p, alias, message, context);
        } else if (!Delivery.deliverSignal(p, message, context)) {
            DeadLetters.add(to, message, context);
        }
    }

    private static void signalElsewhere(Object to, Object message, Object context) {
        Peer peer = peer(to);
        if (peer != null && Remote.tell(peer, to, message, context)) {
            return;
        }
        if (to instanceof Ref) {
            Traffic.loses(to, message, context);
        } else {
            DeadLetters.add(to, message, context);
        }
    }

    /** The process that made the reference; null if it is dead. */
    static LocalProcess maker(Ref ref) {
        return ref.maker() == null ? null : ref.maker().process();
    }

    /** Sends an exit signal. */
    public static void exit(Pid to, Object given) {
        Object reason = Dialect.codec().given(given);
        Fiber sender = Fiber.current();
        sender.enter();
        LocalProcess receiver = ProcessTable.live(to);
        LocalProcess from = LocalProcess.of(sender);
        Peer peer = receiver == null && !isExiting(from) ? Peers.of(to) : null;
        if (peer != null) {
            Remote.exit(sender, from, peer, to, reason);
        } else if (receiver != null && !isExiting(from)) {
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
