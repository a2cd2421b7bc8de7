package magnetar.cluster.impl;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Limits the frames that are on their way to one member to about two megabytes. A sender waits for room.
 *
 * <p>Each frame has a position, which grows by its length and a share for what JGroups adds. The receiver acknowledges
 * the position of the last frame that it delivered. So lost frames count as delivered when a later one arrives. If the
 * last ones are lost, the receiver acknowledges a probe in their place. JGroups' own flow control is not used, since a
 * sender that waits there cannot be interrupted.
 */
final class Window {
    private static final long LIMIT = 2 << 20;

    /** A receiver acknowledges when the position has grown by so much since the last time. */
    static final long SHARE = LIMIT / 4;

    private static final int OVERHEAD = 128;
    private static final long PROBE_MILLIS = 500;

    /** Sends to the member, in the order of the calls, and without blocking. */
    interface Wire {
        void send(byte type, long position, byte[] bytes);
    }

    private final Wire wire;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private long sent;
    private long acknowledged;
    private boolean closed;

    /** A window that begins at a position, which is above all positions of earlier windows to the same member. */
    Window(Wire wire, long position) {
        this.wire = wire;
        sent = position;
        acknowledged = position;
    }

    /** Sends a frame, after a wait for room. Drops it if the window is closed. */
    void send(byte[] frame) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            long cost = frame.length + OVERHEAD;
            while (!closed && sent + cost - acknowledged > LIMIT) {
                if (!changed.await(PROBE_MILLIS, TimeUnit.MILLISECONDS) && !closed) {
                    wire.send(FrameHeader.PROBE, sent, null);
                }
            }
            if (!closed) {
                sent += cost;
                wire.send(FrameHeader.FRAME, sent, frame);
            }
        } finally {
            lock.unlock();
        }
    }

    /** The member has all frames up to this position, or will never have them. */
    void acknowledge(long position) {
        lock.lock();
        try {
            if (position > acknowledged && position <= sent) {
                acknowledged = position;
                changed.signalAll();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Asks for an acknowledgement of all frames, if one is missing. */
    void flush() {
        lock.lock();
        try {
            if (!closed && acknowledged < sent) {
                wire.send(FrameHeader.PROBE, sent, null);
            }
        } finally {
            lock.unlock();
        }
    }

    /** Were all frames acknowledged, or has the member left? */
    boolean isFlushed() {
        lock.lock();
        try {
            return closed || acknowledged == sent;
        } finally {
            lock.unlock();
        }
    }

    /** Ends all waits: the member has left. */
    void close() {
        lock.lock();
        try {
            closed = true;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }
}
