package magnetar.kernel.process;

import magnetar.kernel.park.Waiter;

/** A mailbox without a process. The results are numbers. */
public final class Box {
    private final Mailbox mailbox;

    private Box(Mailbox mailbox) {
        this.mailbox = mailbox;
    }

    /** A mailbox without a bound. */
    public static Box open() {
        return new Box(new OpenMailbox());
    }

    /** A mailbox with room for one message. */
    public static Box bounded(String policy) {
        return new Box(new BoundedMailbox(1, WhenFull.valueOf(policy)));
    }

    /** 0: added; 1: added, and the owner is woken; -1: closed; -2: full. */
    public int push(Object message) {
        Waiter w = mailbox.push(new Node(message));
        if (w == null) {
            return 0;
        }
        if (w == Mailbox.CLOSED || w == Mailbox.FULL) {
            return w == Mailbox.CLOSED ? -1 : -2;
        }
        w.complete(mailbox, null);
        return 1;
    }

    /** Takes the messages that are there, and returns how many. */
    public int drain() {
        int n = 0;
        for (Node m = mailbox.drain(); m != null; m = m.next) {
            n++;
        }
        return n;
    }

    /** The messages that are there as digits, the first one as the highest. */
    public int digits() {
        int n = 0;
        for (Node m = mailbox.drain(); m != null; m = m.next) {
            n = 10 * n + (Integer) m.message;
        }
        return n;
    }

    /** The first message, or null. */
    public Object poll() {
        Node n = mailbox.drain();
        return n == null ? null : n.message;
    }

    public boolean enlist(Waiter owner) {
        return mailbox.enlist(owner);
    }

    public void delist(Waiter owner) {
        mailbox.delist(owner);
    }

    public int waiting() {
        return mailbox.inboxSize();
    }

    public void close() {
        mailbox.close();
    }

    /** A sender is queued for room; false if it need not wait. */
    public boolean awaitRoom(Waiter sender) {
        return ((BoundedMailbox) mailbox).senders().enlist(sender);
    }

    /** The owner takes the only message. */
    public void removeFirst() {
        mailbox.drain();
        mailbox.remove(mailbox.oldest());
    }
}
