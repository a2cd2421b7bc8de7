package magnetar.kernel.process;

import magnetar.kernel.park.Waiter;

/** A mailbox without a process, with answers in numbers. */
public final class Box {
    private final Mailbox mailbox;

    private Box(Mailbox mailbox) {
        this.mailbox = mailbox;
    }

    /** One without a bound. */
    public static Box open() {
        return new Box(new OpenMailbox());
    }

    /** One that holds one message. */
    public static Box bounded(String policy) {
        return new Box(new BoundedMailbox(1, WhenFull.valueOf(policy)));
    }

    /** 0: added, 1: added, and the owner is woken; -1: closed, -2: full. */
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

    /** Takes what is there: how many messages. */
    public int drain() {
        int n = 0;
        for (Node m = mailbox.drain(); m != null; m = m.next) {
            n++;
        }
        return n;
    }

    /** The messages of what is there, the first as the highest digit. */
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
        return mailbox.waiting();
    }

    public void close() {
        mailbox.close();
    }

    /** A sender begins to wait for room: does it wait? */
    public boolean awaitRoom(Waiter sender) {
        return ((BoundedMailbox) mailbox).awaitRoom(sender);
    }

    /** The owner takes the only message. */
    public void removeFirst() {
        mailbox.drain();
        mailbox.remove(mailbox.oldest());
    }
}
