package magnetar.kernel.process;

import java.util.function.IntPredicate;
import magnetar.kernel.park.Waiter;

/** A mailbox without a process, with the operations of senders and of its owner. The results are words. */
public final class Box {
    private final Mailbox mailbox;
    private Waiter waiting; // only accessed by the owner

    private Box(Mailbox mailbox) {
        this.mailbox = mailbox;
    }

    /** A mailbox without a bound. */
    public static Box open() {
        return new Box(new OpenMailbox());
    }

    /** A mailbox with a bound. */
    public static Box bounded(int capacity, String policy) {
        return new Box(new BoundedMailbox(capacity, WhenFull.valueOf(policy)));
    }

    /** A sender adds a message. */
    public String push(int message) {
        return answer(mailbox.push(new Node(message)));
    }

    /** Adds a signal. */
    public String signal(int message) {
        return answer(mailbox.pushSignal(new Node(message)));
    }

    private static String answer(Waiter w) {
        return w == Mailbox.CLOSED ? "closed" : w == Mailbox.FULL ? "full" : "added";
    }

    /** The owner takes the first message that matches; null if no message does, or the process exits. */
    public Integer take(IntPredicate fits) {
        Integer taken = find(fits);
        return mailbox.isClosed() ? null : taken;
    }

    private Integer find(IntPredicate fits) {
        Node from = mailbox.after(0);
        for (Node n = from == null ? mailbox.drain() : from; n != null; n = n.next == null ? mailbox.drain() : n.next) {
            if (fits.test((Integer) n.message)) {
                mailbox.remove(n);
                return (Integer) n.message;
            }
        }
        return null;
    }

    /** The owner begins to wait. */
    public String await() {
        giveUp();
        Waiter w = new Plain();
        boolean waits = mailbox.enlist(w);
        waiting = waits ? w : null;
        return waits ? "waits" : "ready";
    }

    /** The owner's time runs out, if it waits. */
    public void giveUp() {
        if (waiting != null) {
            waiting.claim();
            mailbox.delist(waiting);
            waiting = null;
        }
    }

    /**
     * While no operation runs, the owner must not wait if there is a message, or if the mailbox is closed.
     */
    public void check() {
        if (waiting != null && waiting.isUnclaimed() && (mailbox.inboxSize() > 0 || mailbox.isClosed())) {
            throw new AssertionError("the owner sleeps on");
        }
    }

    /** The number of messages in the inbox, as the owner sees it. */
    public int waiting() {
        return mailbox.inboxSize();
    }

    /** The process exits. */
    public void close() {
        mailbox.close();
    }

    private static final class Plain extends Waiter {
        @Override
        public long id() {
            return 1;
        }

        @Override
        public void complete(Object source, Object result) {}
    }
}
