package magnetar.kernel.process;

import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;
import java.util.function.Predicate;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.park.Waiter;

/**
 * A mailbox for a limited number of ordinary messages. Signals, replies and timer messages are always added,
 * and count.
 *
 * <p>Invariants, in addition to the ones of {@link Mailbox}:
 * <ol>
 *   <li>An ordinary message is added only while inbox and list together hold fewer messages than the
 *       capacity. Messages that count as dropped are not counted.
 *   <li>With {@code DROP_OLD} a sender makes room by dropping the oldest ordinary message. It cannot remove
 *       one from the list, which belongs to the owner. So it increments {@code droppedInList}: that many of
 *       the oldest ordinary messages of the list count as dropped, and the owner removes them before its next
 *       scan.
 *   <li>If the owner's current scan receives one of them, that message no longer counts as dropped. The
 *       result is the same as if it had been received before the new message came in.
 *   <li>A sender waits in {@link Room} only while there is no room. A thread that makes room wakes one sender;
 *       the thread that closes the mailbox wakes all.
 * </ol>
 *
 * <p>Lock order: its lock, the Java monitor, is the innermost one. It is held for a few instructions, and no
 * waiter is woken under it.
 */
final class BoundedMailbox extends Mailbox implements Room.Place {
    final int capacity;
    final WhenFull policy;

    // The rest is guarded by its lock.
    private final ArrayDeque<Node> inbox = new ArrayDeque<>();
    private final Room senders = new Room(this);
    private Waiter owner;
    private boolean closed;
    private int held; // in the inbox and in the list
    private int ordinary; // ordinary messages in the list
    private int droppedInList; // of these, the oldest ones that count as dropped
    private long dropped;

    /** A message to which no bound applies. */
    private static class Spared extends Node {
        Spared(Object message) {
            super(message);
        }

        static Spared of(Node node) {
            Object context = node.context();
            return context == null ? new Spared(node.message) : new SparedInContext(node.message, context);
        }
    }

    private static final class SparedInContext extends Spared {
        private final Object context;

        SparedInContext(Object message, Object context) {
            super(message);
            this.context = context;
        }

        @Override
        Object context() {
            return context;
        }
    }

    BoundedMailbox(int capacity, WhenFull policy) {
        this.capacity = capacity;
        this.policy = policy;
    }

    private boolean hasRoom() {
        return held - droppedInList < capacity;
    }

    /** Under the lock. */
    @Override
    public boolean isFull() {
        return !closed && !hasRoom();
    }

    @Override
    Waiter push(Node node) {
        Simulated.switchPoint();
        synchronized (this) {
            if (!closed && !hasRoom() && !(node instanceof Spared) && !(policy == WhenFull.DROP_OLD && dropOldest())) {
                dropped += policy == WhenFull.DROP_NEW || policy == WhenFull.DROP_OLD ? 1 : 0;
                return FULL;
            }
            return add(node);
        }
    }

    /** Makes room; false if the mailbox holds only signals. */
    private boolean dropOldest() {
        if (ordinary > droppedInList) {
            droppedInList++;
            return true;
        }
        for (Iterator<Node> i = inbox.iterator(); i.hasNext(); ) {
            if (!(i.next() instanceof Spared)) {
                i.remove();
                held--;
                dropped++;
                return true;
            }
        }
        return false;
    }

    @Override
    Waiter pushSignal(Node node) {
        return push(Spared.of(node));
    }

    private Waiter add(Node node) {
        if (closed) {
            return CLOSED;
        }
        inbox.add(node);
        held++;
        Waiter waiting = owner;
        owner = null;
        return waiting != null && waiting.claim() ? waiting : null;
    }

    @Override
    Node takeInbox() {
        removeDropped();
        synchronized (this) {
            return chained();
        }
    }

    private Node chained() {
        Node head = inbox.poll();
        for (Node n = head; n != null; n = n.next) {
            ordinary += n instanceof Spared ? 0 : 1;
            n.next = inbox.poll();
        }
        return head;
    }

    @Override
    void removeDropped() {
        Node next;
        for (Node n = policy == WhenFull.DROP_OLD ? oldest() : null; n != null; n = next) {
            next = n.next;
            if (!(n instanceof Spared)) {
                if (!drops(n)) {
                    return;
                }
                unlink(n);
            }
        }
    }

    /**
     * Moves a message from {@code droppedInList} to {@code dropped}, in one step, so that info never counts
     * it twice. False if no message of the list counts as dropped.
     */
    private synchronized boolean drops(Node oldest) {
        if (droppedInList == 0) {
            return false;
        }
        leaves(oldest);
        dropped++;
        return true;
    }

    @Override
    void removing(Node node) {
        synchronized (this) {
            leaves(node);
        }
        senders.wake(1);
    }

    private void leaves(Node node) {
        held--;
        if (!(node instanceof Spared)) {
            ordinary--;
            droppedInList -= countsAsDropped(node) ? 1 : 0;
        }
    }

    /** True if the node is in the list and counts as dropped. */
    private boolean countsAsDropped(Node node) {
        int older = 0;
        for (Node n = node.previous; n != null && older < droppedInList; n = n.previous) {
            older += n instanceof Spared ? 0 : 1;
        }
        return older < droppedInList;
    }

    /** The senders that wait for room. */
    Room senders() {
        return senders;
    }

    /** Waits until there may be room. The sender then pushes, and if that fails calls {@link #passOn}. */
    void awaitRoom(Fiber sender, Object of) throws InterruptedException {
        senders.awaitOnce(sender, WaitReason.MAILBOX_ROOM, of);
    }

    /** Wakes another sender, because one that was woken has not used the room. */
    void passOn() {
        senders.wake(1);
    }

    @Override
    synchronized MailboxInfo info() {
        return new MailboxInfo(held - droppedInList, capacity, policy.name(), dropped + droppedInList, senders.size());
    }

    @Override
    int roughSize() {
        return listSize() + inbox.size();
    }

    @Override
    synchronized int inboxSize() {
        return inbox.size();
    }

    @Override
    synchronized int findInInbox(Predicate<Object> wanted) {
        int before = 0;
        for (Node n : inbox) {
            if (wanted.test(n.message)) {
                return before;
            }
            before++;
        }
        return -1;
    }

    @Override
    synchronized void peekInInbox(int most, List<Object> found) {
        int left = most;
        for (Node n : inbox) {
            if (left-- <= 0) {
                return;
            }
            found.add(n.message);
        }
    }

    @Override
    public synchronized boolean enlist(Waiter waiter) {
        if (closed || !inbox.isEmpty()) {
            return false;
        }
        owner = waiter;
        return true;
    }

    @Override
    public synchronized void delist(Waiter waiter) {
        if (owner == waiter) {
            owner = null;
        }
    }

    @Override
    void close() {
        Waiter waiting;
        synchronized (this) {
            closed = true;
            inbox.clear();
            waiting = owner;
            owner = null;
        }
        if (waiting != null && waiting.claim()) {
            waiting.complete(this, null);
        }
        senders.wake(Room.ALL);
    }

    @Override
    synchronized boolean isClosed() {
        return closed;
    }
}
