package magnetar.cluster.wire;

import java.util.HashMap;
import java.util.Map;
import magnetar.kernel.network.Member;
import magnetar.kernel.process.Outbox;

/**
 * How much was received from each member and not processed by its session. The thread of the network never waits for a
 * session, since that would hold up the views, and the frames of all others. A stream keeps its sender within a window,
 * see {@link Outbox}, so a member passes the limit only if it breaks the rules.
 *
 * <p>Invariant: what is counted for a member is the cost of its frames that are in the mailbox of the hub, or are in the
 * share of a session that has not ended.
 */
public final class Unread {
    private final long limit;
    private final Map<Member, Long> unread = new HashMap<>(); // guarded by its lock

    /** Nothing yet. No member may have more than `limit` bytes, with what frames cost. */
    public Unread(long limit) {
        this.limit = limit;
    }

    /** Adds a frame of so many bytes; false, and it is not counted, if the member has too many. */
    public synchronized boolean add(Member from, int length) {
        long next = size(from) + Outbox.cost(length);
        if (next <= limit) {
            unread.put(from, next);
        }
        return next <= limit;
    }

    /** How much there is of the member. */
    public synchronized long size(Member from) {
        return unread.getOrDefault(from, 0L);
    }

    /** Takes a frame away that no session will read. */
    public void remove(Member from, int length) {
        subtract(from, Outbox.cost(length));
    }

    private synchronized void subtract(Member from, long cost) {
        long left = size(from) - cost;
        if (left > 0) {
            unread.put(from, left);
        } else {
            unread.remove(from);
        }
    }

    /** The part of a session with the member. */
    public Share share(Member of) {
        return new Share(of);
    }

    /** What waits for one session. */
    public final class Share {
        private final Member of;
        private long held; // guarded by the lock of what is unread

        private Share(Member of) {
            this.of = of;
        }

        /** A frame that was added before is for this session. */
        public void take(int length) {
            synchronized (Unread.this) {
                held += Outbox.cost(length);
            }
        }

        /** The session has processed a frame. */
        public void read(int length) {
            synchronized (Unread.this) {
                held -= Outbox.cost(length);
                subtract(of, Outbox.cost(length));
            }
        }

        /** The session has ended. What it has not read is dropped. */
        public void close() {
            synchronized (Unread.this) {
                subtract(of, held);
                held = 0;
            }
        }
    }
}
