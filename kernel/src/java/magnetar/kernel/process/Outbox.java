package magnetar.kernel.process;

import java.util.ArrayDeque;
import java.util.Arrays;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.park.Waiter;

/**
 * The bytes of a stream to another node that have not left. A transport adds each signal whole, and one fiber of its
 * takes them in parts of any size.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The bytes from {@code start} to {@code end} have been added and not been taken, in this order.
 *   <li>Senders wait while there are {@code limit} bytes or more, and it is open. A sender that has found room adds its
 *       whole signal, so each may pass the limit by one signal. What the kernel adds by itself does not wait.
 *   <li>The fiber that takes waits only while there is nothing, and it is open. A thread that adds wakes it. A thread
 *       that takes wakes the senders if there is room. A thread that closes it wakes all.
 * </ol>
 *
 * <p>Lock order: its lock is the innermost one, and no waiter is woken under it.
 *
 * <p>Source: the queue of a distribution port in Erlang, with its limit on bytes, where the sender is suspended.
 */
public final class Outbox {
    private static final int SMALL = 1 << 12;

    private final String node;
    private final int limit;

    // The rest is guarded by its lock.
    private final ArrayDeque<Waiter> senders = new ArrayDeque<>();
    private byte[] bytes = new byte[SMALL];
    private int start;
    private int end;
    private Waiter taker;
    private boolean closed; // nothing is added any more

    /**
     * An empty outbox.
     *
     * @param node the name of the other node, which {@code inspect} shows
     * @param limit the number of bytes from which on senders wait
     */
    public Outbox(String node, int limit) {
        this.node = node;
        this.limit = limit;
    }

    /** Adds bytes, all or none. Never waits. If it is closed they are dropped. */
    public void add(byte[] signal, int from, int length) {
        Waiter woken;
        Simulated.switchPoint();
        synchronized (this) {
            if (closed) {
                return;
            }
            makeRoom(length);
            System.arraycopy(signal, from, bytes, end, length);
            end += length;
            woken = claimTaker();
        }
        if (woken != null) {
            woken.complete(this, null);
        }
    }

    private void makeRoom(int length) {
        if (length <= bytes.length - end) {
            return;
        }
        int held = end - start;
        int needed = Math.addExact(held, length);
        byte[] target = needed <= bytes.length / 2 ? bytes : new byte[needed > 1 << 30 ? needed : Math.max(SMALL, 2 * needed)];
        System.arraycopy(bytes, start, target, 0, held);
        bytes = target;
        start = 0;
        end = held;
    }

    private Waiter claimTaker() {
        Waiter w = taker;
        taker = null;
        return w != null && w.claim() ? w : null;
    }

    /** How many bytes there are. */
    public synchronized int size() {
        return end - start;
    }

    // --- senders -----------------------------------------------------------------------------------------------------

    /** Waits until there is room, or it is closed. */
    public void awaitRoom() throws InterruptedException {
        Fiber fiber = Fiber.current();
        fiber.enter();
        while (isFull()) {
            Parked waiter = new Parked(fiber, WaitReason.NODE_ROOM, node);
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
    }

    private boolean isFull() {
        Simulated.switchPoint();
        synchronized (this) {
            return !closed && end - start >= limit;
        }
    }

    private boolean queue(Waiter sender) {
        Simulated.switchPoint();
        synchronized (this) {
            if (closed || end - start < limit) {
                return false;
            }
            senders.add(sender);
            return true;
        }
    }

    private void giveUp(Waiter sender) {
        synchronized (this) {
            senders.remove(sender);
        }
    }

    // --- the fiber that takes ----------------------------------------------------------------------------------------

    /**
     * Takes as many bytes as there are and fit into the array behind the position. Waits until there are some; returns
     * -1 if it is closed and empty.
     */
    public int take(byte[] target, int from) throws InterruptedException {
        Fiber fiber = Fiber.current();
        fiber.enter();
        for (;;) {
            Parked waiter = new Parked(fiber, WaitReason.NODE_SIGNALS, node);
            int taken = takeOrWait(target, from, waiter);
            if (taken != 0) {
                wakeSenders();
                return taken;
            }
            waiter.await();
            fiber.check();
        }
    }

    private int takeOrWait(byte[] target, int from, Waiter waiter) {
        Simulated.switchPoint();
        synchronized (this) {
            int n = Math.min(target.length - from, end - start);
            if (closed && n == 0) {
                return -1;
            }
            if (n == 0) {
                taker = waiter;
                return 0;
            }
            System.arraycopy(bytes, start, target, from, n);
            start += n;
            if (start == end) {
                start = 0;
                end = 0;
                bytes = bytes.length > 2 * Math.max(limit, SMALL) ? new byte[SMALL] : bytes;
            }
            return n;
        }
    }

    private void wakeSenders() {
        for (Waiter w = next(); w != null; w = next()) {
            w.complete(this, null);
        }
    }

    private synchronized Waiter next() {
        while (!senders.isEmpty() && (closed || end - start < limit)) {
            Waiter w = senders.poll();
            if (w.claim()) {
                return w;
            }
        }
        return null;
    }

    /** Closes it, but keeps what is there to be taken. */
    public void finish() {
        close(false);
    }

    /** Drops what is there, takes nothing more in, and ends all waits. */
    public void close() {
        close(true);
    }

    private void close(boolean drop) {
        Waiter woken;
        Simulated.switchPoint();
        synchronized (this) {
            closed = true;
            if (drop) {
                start = 0;
                end = 0;
                bytes = Arrays.copyOf(bytes, 0);
            }
            woken = claimTaker();
        }
        if (woken != null) {
            woken.complete(this, null);
        }
        wakeSenders();
    }
}
