package magnetar.kernel.process;

import java.util.Map;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Waiter;

/**
 * The senders' side of a mailbox: what happens to a message that has arrived at a process.
 *
 * <p>Invariant: when the sender continues, its message is in the mailbox or among the dead letters, or the
 * sender got an error because there was no room. The owner is woken last, outside of all locks, because the
 * sender often parks next: then the owner runs on the sender's carrier.
 */
final class Delivery {
    private Delivery() {}

    /** Delivers a message to an address of the process: its pid or an alias. */
    static void deliver(LocalProcess process, Fiber sender, Object to, Object message, Object context) throws InterruptedException {
        if (to instanceof Ref alias) {
            Aliases.deliver(process, alias, message, context);
        } else {
            deliver(process, sender, Node.of(message, context));
        }
    }

    /**
     * Delivers a message of the current fiber, which waits if the mailbox is full and its policy is to block.
     */
    private static void deliver(LocalProcess process, Fiber sender, Node node) throws InterruptedException {
        Mailbox mailbox = process.mailbox();
        Waiter answer = mailbox.push(node);
        if (answer == Mailbox.FULL) {
            answer = whenFull(process, sender, node, (BoundedMailbox) mailbox);
        }
        if (!arrives("message", process, node.message, answer)) {
            DeadLetters.add(process.pid(), node.message, node.context());
        }
    }

    /** Delivers a message to which no bound applies. Never waits. False if the process is dead. */
    static boolean deliverSignal(LocalProcess process, Object message, Object context) {
        return arrives("timer message", process, message, process.mailbox().pushSignal(Node.of(message, context)));
    }

    /**
     * Delivers a message of another node. Never waits: where a sender here would wait for room, the message goes past
     * the bound. False if it does not arrive.
     */
    static boolean deliverFromNode(LocalProcess process, Object message, Object context) {
        Mailbox mailbox = process.mailbox();
        Node node = Node.of(message, context);
        Waiter answer = mailbox.push(node);
        if (answer == Mailbox.FULL) {
            answer = ((BoundedMailbox) mailbox).policy == WhenFull.BLOCK ? mailbox.pushSignal(node) : Mailbox.CLOSED;
        }
        return arrives("message", process, message, answer);
    }

    /** Handles the result of a push, outside of all locks: false if the mailbox is closed. */
    static boolean arrives(String how, LocalProcess process, Object message, Waiter answer) {
        if (answer != Mailbox.CLOSED) {
            Simulated.note(how, process.pid(), message);
        }
        return wake(process, answer);
    }

    /** Wakes the owner if the push returned its waiter. False if the mailbox is closed. */
    static boolean wake(LocalProcess process, Waiter answer) {
        if (answer != null && answer != Mailbox.CLOSED) {
            answer.complete(process.mailbox(), null);
        }
        return answer != Mailbox.CLOSED;
    }

    private static Waiter whenFull(LocalProcess process, Fiber sender, Node node, BoundedMailbox full) throws InterruptedException {
        switch (full.policy) {
            case DROP_NEW, DROP_OLD:
                return Mailbox.CLOSED;
            case FAIL:
                throw refuse(process, node, "The mailbox of " + process.pid() + " is full: it holds " + full.capacity
                        + (full.capacity == 1 ? " message" : " messages") + ", and was made to refuse more. Send less, or wait for answers.");
            default:
                if (LocalProcess.of(sender) == process) {
                    throw refuse(process, node, "The process " + process.pid() + " sends to itself, and its own mailbox is full with " + full.capacity
                            + " messages: it would wait for itself. Receive first.");
                }
                return awaitRoom(process, sender, node, full);
        }
    }

    private static RuntimeException refuse(LocalProcess process, Node node, String sentence) {
        Traffic.loses(process.pid(), node.message, node.context());
        return Dialect.codec().misuse("mailbox-full", sentence, Map.of("pid", process.pid()));
    }

    private static Waiter awaitRoom(LocalProcess process, Fiber sender, Node node, BoundedMailbox full) throws InterruptedException {
        Waiter answer = Mailbox.FULL;
        while (answer == Mailbox.FULL) {
            full.awaitRoom(sender, process.pid());
            try {
                answer = full.push(node);
            } finally {
                if (answer == Mailbox.FULL) {
                    full.passOn();
                }
            }
        }
        return answer;
    }
}
