package magnetar.kernel.process;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.function.Predicate;
import magnetar.kernel.park.Source;
import magnetar.kernel.park.Waiter;

/**
 * The messages of one process: an inbox that any thread may add to, and a list in the order of arrival that its owner alone looks through.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A message is in the inbox, or in the list, or was taken: once. The owner moves the whole inbox to the end of the list, in order.
 *   <li>A message that was added before the owner looked at the inbox is seen; one that is added later meets the owner's waiter, which is in
 *       the inbox exactly while the inbox is empty and the owner waits. So no wake-up is lost.
 *   <li>The numbers of the nodes in the list ascend. A node that was there when a reference was made has no higher number than the mark of
 *       that reference.
 *   <li>Once closed it takes nothing, and what it held is dropped.
 * </ol>
 */
abstract class Mailbox implements Source {
    /** What {@link #push} answers when the mailbox is closed. */
    static final Waiter CLOSED = new Answer();

    /** What {@link #push} answers when there is no room. */
    static final Waiter FULL = new Answer();

    private static final VarHandle KEPT;

    static {
        try {
            KEPT = MethodHandles.lookup().findVarHandle(Mailbox.class, "kept", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    // The list. Only accessed by the owner.
    private Node first;
    private Node last; // null, or the first, while there is one only: it is not written then
    private long arrived;

    // True while a message is looked at. Only written by the owner; here, since whoever sends reads the process, and this changes with each message.
    boolean matching;

    // How often it was warned of since it was short last. Written under the lock of the warnings, and by the owner; a race costs a warning more or less.
    byte warned;

    // Only written by the owner, opaquely: others that count may be a little late, and no message pays for a fence.
    private int kept;

    /** Adds a message. Answers the waiter of the owner, claimed and to be completed, or null, {@link #CLOSED} or {@link #FULL}. */
    abstract Waiter push(Node node);

    /** Adds a message that no bound applies to. */
    abstract Waiter pushSignal(Node node);

    /** Takes the whole inbox, in the order of arrival; null if it is empty. Called by the owner. */
    abstract Node takeInbox();

    /** How many messages are in the inbox. */
    abstract int waiting();

    /** Closes it, and wakes the owner if it waits: a shield may hide from it why. Links no call site, since memory may have ended while messages are held. */
    abstract void close();

    abstract boolean isClosed();

    /** Called by the owner before it takes a message out of the list. */
    void removing(Node node) {}

    /** Takes out of the list what has to go before it is looked at. */
    void pay() {}

    /** How many messages there are. */
    final int size() {
        return kept() + waiting();
    }

    /** What is known of it at one instant. */
    MailboxInfo info() {
        return new MailboxInfo(size(), 0, null, 0, 0);
    }

    /** How many messages are in the list. */
    final int kept() {
        return (int) KEPT.getOpaque(this);
    }

    /** The number of the youngest message in the list, or that was in it. */
    final long arrived() {
        return arrived;
    }

    /** The number of the youngest message that has arrived. */
    final long mark() {
        drain();
        return arrived;
    }

    /** Moves the inbox to the list; the first of the nodes moved, or null. */
    final Node drain() {
        Node moved = takeInbox();
        if (moved != null) {
            append(moved);
        }
        return moved;
    }

    // Each field once: those who send take the line that they are in.
    private void append(Node chain) {
        Node before = youngest();
        long number = arrived;
        for (Node n = chain; n != null; n = n.next) {
            n.number = ++number;
            n.previous = before;
            before = n;
        }
        if (first == null) {
            first = chain;
        } else {
            chain.previous.next = chain;
        }
        if (before != first) {
            last = before;
        }
        int now = kept + (int) (number - arrived);
        KEPT.setOpaque(this, now);
        arrived = number;
        if (now >= LongQueues.LIMIT) {
            LongQueues.found(this, now);
        } else if (warned != 0) {
            LongQueues.looked(this, now);
        }
    }

    /** The first node of the list that arrived after the mark; null if there is none. */
    final Node after(long mark) {
        pay();
        if (mark == 0) {
            return first;
        }
        Node later = null;
        for (Node n = youngest(); n != null && n.number > mark; n = n.previous) {
            later = n;
        }
        return later;
    }

    /** Takes the message that is received out of the list. */
    final void remove(Node node) {
        removing(node);
        unlink(node);
    }

    /** Takes a node out of the list. */
    final void unlink(Node node) {
        if (node.previous == null) {
            first = node.next;
        } else {
            node.previous.next = node.next;
        }
        if (node.next == null) {
            last = node.previous;
        } else {
            node.next.previous = node.previous;
        }
        KEPT.setOpaque(this, kept - 1);
    }

    /** Closes it, and drops the list as well. Called by the owner, who looks at no message any more. */
    final void drop() {
        first = null;
        last = null;
        kept = 0;
        close();
    }

    private Node youngest() {
        return last == null ? first : last;
    }

    /** The oldest node of the list, or null. */
    final Node oldest() {
        return first;
    }

    /**
     * How many messages are before the first one that the test takes, or -1. May be called by any thread: while the owner works on its list,
     * or takes its inbox, it may miss one; what it finds was there.
     */
    final int find(Predicate<Object> wanted) {
        int before = 0;
        int most = size();
        for (Node n = first; n != null && before <= most; n = n.next) {
            if (wanted.test(n.message)) {
                return before;
            }
            before++;
        }
        int inInbox = findInInbox(wanted);
        return inInbox < 0 ? -1 : kept + inInbox;
    }

    /** {@link #find} in the inbox. */
    abstract int findInInbox(Predicate<Object> wanted);

    private static final class Answer extends Waiter {
        @Override
        public long id() {
            return 0;
        }

        @Override
        public void complete(Object source, Object result) {
            throw new AssertionError("an answer is no waiter");
        }
    }
}
