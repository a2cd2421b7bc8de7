package magnetar.kernel.process;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.park.World;

/**
 * A mailbox for a limited number of ordinary messages. Signals, replies and timers are added in any case, and count.
 *
 * <p>Invariants, beside those of {@link Mailbox}:
 * <ol>
 *   <li>An ordinary message is added only while inbox and list together hold fewer than the capacity; where the oldest is dropped instead,
 *       one that is in the list is owed, and the owner drops it before it looks at the list again.
 *   <li>A sender is in the queue of those that wait for room only while there is none: whoever makes room, or closes, wakes one, or all.
 * </ol>
 *
 * <p>The monitor is held for a few instructions; no other lock is taken and nobody is woken under it.
 */
final class BoundedMailbox extends Mailbox {
    /** What happens to an ordinary message that finds no room. */
    enum Policy {
        BLOCK,
        DROP_NEW,
        DROP_OLD,
        FAIL
    }

    final int capacity;
    final Policy policy;

    // The rest is guarded by the monitor.
    private final ArrayDeque<Node> inbox = new ArrayDeque<>();
    private final ArrayDeque<Waiter> senders = new ArrayDeque<>();
    private Waiter owner;
    private boolean closed;
    private int held; // in the inbox and in the list
    private int owed; // of those in the list
    private long dropped;

    BoundedMailbox(int capacity, Policy policy) {
        this.capacity = capacity;
        this.policy = policy;
    }

    private boolean hasRoom() {
        return held - owed < capacity;
    }

    @Override
    Waiter push(Node node) {
        World.switchPoint();
        synchronized (this) {
            if (!closed && !hasRoom()) {
                if (policy != Policy.DROP_OLD) {
                    dropped += policy == Policy.DROP_NEW ? 1 : 0;
                    return FULL;
                }
                dropOldest();
                dropped++;
            }
            return add(node);
        }
    }

    private void dropOldest() {
        if (held - inbox.size() > owed) {
            owed++;
        } else {
            inbox.poll();
            held--;
        }
    }

    @Override
    Waiter pushSignal(Node node) {
        World.switchPoint();
        synchronized (this) {
            return add(node);
        }
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
        while (oldest() != null && owes()) {
            remove(oldest());
        }
        synchronized (this) {
            return chained();
        }
    }

    private Node chained() {
        Node head = inbox.poll();
        for (Node n = head; n != null; n = n.next) {
            n.next = inbox.poll();
        }
        return head;
    }

    private synchronized boolean owes() {
        boolean owes = owed > 0;
        owed -= owes ? 1 : 0;
        return owes;
    }

    @Override
    void removed() {
        synchronized (this) {
            held--;
        }
        wakeSenders();
    }

    /** Wakes a sender if there is room, or all if it was closed. */
    private void wakeSenders() {
        for (Waiter w : toWake()) {
            w.complete(this, null);
        }
    }

    private synchronized List<Waiter> toWake() {
        if (senders.isEmpty()) {
            return List.of();
        }
        List<Waiter> woken = new ArrayList<>(1);
        while (!senders.isEmpty() && (closed || hasRoom() && woken.isEmpty())) {
            Waiter w = senders.poll();
            if (w.claim()) {
                woken.add(w);
            }
        }
        return woken;
    }

    /** Queues a sender until there may be room; false if there may be now. */
    synchronized boolean awaitRoom(Waiter sender) {
        if (closed || hasRoom()) {
            return false;
        }
        senders.add(sender);
        return true;
    }

    /** Takes out a sender that gave up; if it had been woken, the next one is. */
    void giveUp(Waiter sender) {
        synchronized (this) {
            senders.remove(sender);
        }
        wakeSenders();
    }

    @Override
    synchronized MailboxInfo info() {
        return new MailboxInfo(held - owed, capacity, policy.name(), dropped, senders.size());
    }

    @Override
    synchronized int waiting() {
        return inbox.size();
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
        synchronized (this) {
            closed = true;
            inbox.clear();
        }
        wakeSenders();
    }

    @Override
    synchronized boolean isClosed() {
        return closed;
    }
}
