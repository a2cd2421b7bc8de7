package magnetar.cluster.wire;

import java.util.ArrayDeque;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.park.Waiter;

/**
 * The bytes of received frames that no session has processed. The thread of the network waits while there are too
 * many. So it acknowledges nothing, and the windows of the senders fill.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The thread of the network waits only while there are {@code limit} bytes or more, it is open, and no session
 *       sends. A session that waits to send needs that thread on the other side, which may wait for a session likewise.
 *   <li>The bytes of a session that has ended count no more: see {@link Share#close}.
 * </ol>
 *
 * <p>Lock order: its lock is the innermost one, and no waiter is woken under it.
 */
public final class Unread {
    private final long limit;

    // The rest is guarded by its lock.
    private final ArrayDeque<Waiter> waiting = new ArrayDeque<>();
    private long bytes;
    private int sending;
    private boolean closed;

    /** None yet. From `limit` bytes on the network waits. */
    public Unread(long limit) {
        this.limit = limit;
    }

    /** How many bytes there are. */
    public synchronized long size() {
        return bytes;
    }

    /** Adds bytes, after a wait for room. */
    public void add(int n) throws InterruptedException {
        Fiber fiber = Fiber.current();
        fiber.enter();
        while (isFull()) {
            Parked waiter = new Parked(fiber, WaitReason.MAILBOX_ROOM, null);
            boolean gone = false;
            try {
                if (queue(waiter)) {
                    waiter.await();
                }
                fiber.check();
                gone = true;
            } finally {
                if (!gone) {
                    giveUp(waiter);
                }
            }
        }
        addNow(n);
    }

    /** Adds bytes without a wait. */
    public synchronized void addNow(int n) {
        bytes += n;
    }

    /** Takes bytes away that no session will read. */
    public void remove(long n) {
        synchronized (this) {
            bytes -= n;
        }
        wake();
    }

    /** Lets everything in from now on. */
    public void close() {
        synchronized (this) {
            closed = true;
        }
        wake();
    }

    private boolean isFull() {
        Simulated.switchPoint();
        synchronized (this) {
            return mustWait();
        }
    }

    private boolean mustWait() {
        return !closed && sending == 0 && bytes >= limit;
    }

    private boolean queue(Waiter waiter) {
        Simulated.switchPoint();
        synchronized (this) {
            return mustWait() && waiting.add(waiter);
        }
    }

    private synchronized void giveUp(Waiter waiter) {
        waiting.remove(waiter);
    }

    private void wake() {
        for (Waiter w = next(); w != null; w = next()) {
            w.complete(this, null);
        }
    }

    private synchronized Waiter next() {
        while (!waiting.isEmpty() && !mustWait()) {
            Waiter w = waiting.poll();
            if (w.claim()) {
                return w;
            }
        }
        return null;
    }

    /** The part of a session. */
    public Share share() {
        return new Share();
    }

    /** What waits for one session. */
    public final class Share {
        private long held;

        private Share() {}

        /** Bytes that have been added before are for this session. */
        public void take(int n) {
            synchronized (Unread.this) {
                held += n;
            }
        }

        /** The session has read bytes. */
        public void read(int n) {
            synchronized (Unread.this) {
                held -= n;
            }
            remove(n);
        }

        /** The session waits for the network from now on. */
        public void beginSend() {
            synchronized (Unread.this) {
                sending++;
            }
            wake();
        }

        /** It does so no longer. */
        public void endSend() {
            synchronized (Unread.this) {
                sending--;
            }
        }

        /** The session has ended. What it has not read is dropped. */
        public void close() {
            long rest;
            synchronized (Unread.this) {
                rest = held;
                held = 0;
            }
            remove(rest);
        }
    }
}
