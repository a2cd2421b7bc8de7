package magnetar.kernel.process;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import magnetar.kernel.park.Source;
import magnetar.kernel.park.Waiter;

/**
 * The messages of one process: an inbox that any thread may add to, and a list in order of arrival that only
 * its owner scans.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A message is in exactly one place: in the inbox, in the list, received, or dropped. The owner moves
 *       the whole inbox to the end of the list, in order.
 *   <li>No wake-up is lost. The inbox holds either messages or the waiter of the owner, never both. It holds
 *       the waiter while the owner waits. A thread that adds a message claims the waiter in the same step.
 *   <li>The numbers of the nodes in the list ascend. A node that was there when a reference was made has a
 *       number not higher than the mark of that reference.
 *   <li>A closed mailbox accepts no message, and its inbox is empty. The owner may still receive from its
 *       list.
 * </ol>
 */
abstract class Mailbox implements Source {
    /** The result of {@link #push} if the mailbox is closed. */
    static final Waiter CLOSED = new PushResult();

    /** The result of {@link #push} if there is no room. */
    static final Waiter FULL = new PushResult();

    private static final VarHandle LISTED;
    private static final VarHandle LAST_NUMBER;

    static {
        try {
            LISTED = MethodHandles.lookup().findVarHandle(Mailbox.class, "listed", int.class);
            LAST_NUMBER = MethodHandles.lookup().findVarHandle(Mailbox.class, "lastNumber", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    // The list. Only accessed by the owner.
    private Node first;
    private Node last; // with one node: null or that node, which saves a write
    private long lastNumber; // of the youngest message that ever was in the list

    // True while a matcher runs on a message. Only written by the owner. It changes with each message, so it
    // is not in LocalProcess, which senders read.
    boolean matching;

    // How many doublings of the limit were warned about since it was last short. Written under the lock of
    // the warnings, and by the owner. A race costs a warning more or less.
    byte warningLevel;

    // Only written by the owner. No message pays for a fence, so other threads may read an older count.
    private int listed;

    /**
     * Adds a message. Any thread may call it.
     *
     * @return null if the message was added and no owner waits; the waiter of the owner, claimed, which the
     *     caller has to complete; or {@link #CLOSED} or {@link #FULL}
     */
    abstract Waiter push(Node node);

    /** Adds a message to which no bound applies. */
    abstract Waiter pushSignal(Node node);

    /** Takes the whole inbox, in the order of arrival; null if it is empty. Called by the owner. */
    abstract Node takeInbox();

    /** How many messages are in the inbox. */
    abstract int inboxSize();

    /**
     * Closes it and wakes its owner, which may be in a shield that masks the cause. Must neither allocate nor
     * link an {@code invokedynamic} call site, because memory may have run out.
     */
    abstract void close();

    abstract boolean isClosed();

    /** Called by the owner before it removes a message from the list. */
    void removing(Node node) {}

    /**
     * Removes the messages from the list that were dropped while they were in it. Called by the owner before
     * a scan.
     */
    void removeDropped() {}

    /** How many messages there are. */
    final int size() {
        return listSize() + inboxSize();
    }

    /** The same, perhaps outdated, without a lock. */
    int roughSize() {
        return size();
    }

    /** A snapshot of its state. */
    MailboxInfo info() {
        return new MailboxInfo(size(), 0, null, 0, 0);
    }

    /** How many messages are in the list. */
    final int listSize() {
        return (int) LISTED.getOpaque(this);
    }

    /** How many messages have left the list so far. Any thread may call it, and may see an older number. */
    final long taken() {
        return (long) LAST_NUMBER.getOpaque(this) - listSize();
    }

    /** The number of the youngest message that ever was in the list. */
    final long lastNumber() {
        return lastNumber;
    }

    /** Moves the inbox to the list. Returns the number of the youngest message. Called by the owner. */
    final long mark() {
        drain();
        return lastNumber;
    }

    /** Moves the inbox to the list. Returns the first of the moved nodes, or null. Called by the owner. */
    final Node drain() {
        Node moved = takeInbox();
        if (moved != null) {
            append(moved);
        }
        return moved;
    }

    // Writes each field once, because senders contend for the cache line of the fields.
    private void append(Node chain) {
        Node before = youngest();
        long number = lastNumber;
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
        int now = listed + (int) (number - lastNumber);
        LISTED.setOpaque(this, now);
        lastNumber = number;
        if (now >= LongQueues.LIMIT) {
            LongQueues.found(this, now);
        } else if (warningLevel != 0) {
            LongQueues.looked(this, now);
        }
    }

    /** The first node of the list that arrived after the mark, or null. Called by the owner. */
    final Node after(long mark) {
        removeDropped();
        if (mark == 0) {
            return first;
        }
        Node later = null;
        for (Node n = youngest(); n != null && n.number > mark; n = n.previous) {
            later = n;
        }
        return later;
    }

    /** Removes the message that is received from the list. Called by the owner. */
    final void remove(Node node) {
        removing(node);
        unlink(node);
    }

    /** Removes a node from the list. Called by the owner. */
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
        LISTED.setOpaque(this, listed - 1);
    }

    /** Closes the mailbox, and drops the list as well. Called by the owner, which scans it no more. */
    final void drop() {
        first = null;
        last = null;
        listed = 0;
        close();
    }

    private Node youngest() {
        return last == null ? first : last;
    }

    /** The oldest node of the list, or null. Called by the owner. */
    final Node oldest() {
        return first;
    }

    /**
     * The number of messages before the first one that the test accepts, or -1. Any thread may call it. While
     * the owner changes its list or takes its inbox, it may miss a message. A message that it finds was
     * there.
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
        return inInbox < 0 ? -1 : listed + inInbox;
    }

    /** {@link #find} in the inbox. */
    abstract int findInInbox(Predicate<Object> wanted);

    /** The oldest messages, at most so many, in the order of arrival. Any thread may call it, as {@link #find}. */
    final List<Object> peek(int most) {
        List<Object> found = new ArrayList<>();
        for (Node n = first; n != null && found.size() < most; n = n.next) {
            found.add(n.message);
        }
        peekInInbox(most - found.size(), found);
        return found;
    }

    /** Adds the oldest messages of the inbox to what {@link #peek} has found, at most so many. */
    abstract void peekInInbox(int most, List<Object> found);

    private static final class PushResult extends Waiter {
        @Override
        public long id() {
            return 0;
        }

        @Override
        public void complete(Object source, Object result) {
            throw new AssertionError("the result of a push is not a waiter");
        }
    }
}
