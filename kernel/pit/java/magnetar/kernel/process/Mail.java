package magnetar.kernel.process;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import magnetar.kernel.park.Waiter;

/** Helpers of the mailbox tests. */
final class Mail {
    private Mail() {}

    /** A waiter that counts how often it was completed. */
    static final class One extends Waiter {
        private static long ids;

        private final long id = ++ids;
        int completed;

        @Override
        public long id() {
            return id;
        }

        @Override
        public void complete(Object source, Object result) {
            assertTrue(!isUnclaimed(), "completed without its claim");
            completed++;
        }

        static One claimed() {
            One one = new One();
            assertTrue(one.claim());
            return one;
        }
    }

    static Waiter push(Mailbox mailbox, Object... messages) {
        Waiter last = null;
        for (Object m : messages) {
            last = mailbox.push(new Node(m));
        }
        return last;
    }

    static Waiter signal(Mailbox mailbox, Object message) {
        return mailbox.pushSignal(new Node(message));
    }

    /** The messages from this node on. */
    static List<Object> from(Node node) {
        List<Object> messages = new ArrayList<>();
        for (Node n = node; n != null; n = n.next) {
            messages.add(n.message);
            assertTrue(messages.size() <= 200_000, "a ring");
        }
        return messages;
    }

    /** The messages of the list. Its links must agree in both directions, and its numbers must ascend. */
    static List<Object> list(Mailbox mailbox) {
        List<Object> backwards = new ArrayList<>();
        Node last = null;
        for (Node n = mailbox.oldest(); n != null; n = n.next) {
            assertTrue(last == null || n.number > last.number);
            last = n;
        }
        for (Node n = last; n != null; n = n.previous) {
            backwards.add(n.message);
        }
        Collections.reverse(backwards);
        List<Object> forwards = from(mailbox.oldest());
        assertEquals(forwards, backwards);
        assertEquals(forwards.size(), mailbox.listSize());
        return forwards;
    }

    static Node node(Mailbox mailbox, Object message) {
        Node n = mailbox.oldest();
        while (!n.message.equals(message)) {
            n = n.next;
        }
        return n;
    }

    static void remove(Mailbox mailbox, Object message) {
        mailbox.remove(node(mailbox, message));
    }
}
