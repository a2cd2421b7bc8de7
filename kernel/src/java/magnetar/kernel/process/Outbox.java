package magnetar.kernel.process;

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
 *   <li>Of what was added without a wait while it was full, there are at most {@value #CUT_OFF} times {@code limit} bytes
 *       and one signal: the next one closes it. A byte that is taken counts as one of these, so they are at most
 *       {@code limit} bytes and the senders' signals more.
 *   <li>What was taken and not yet processed on the other side costs at most {@code window} and one part. So a reader that
 *       is slow holds up its sender, and neither the network nor the memory of its node.
 *   <li>The fiber that takes waits only while there is nothing, and it is open, or while the window is full. A thread that
 *       adds, or says what was processed, wakes it. A thread that takes wakes the senders if there is room. A thread that
 *       closes it wakes all.
 * </ol>
 *
 * <p>Lock order: its lock is the innermost one, and no waiter is woken under it.
 *
 * <p>Source: the queue of a distribution port in Erlang, with its limit on bytes, where the sender is suspended.
 */
public final class Outbox implements Room.Place {
    /** How many times its limit may be added without a wait. */
    public static final int CUT_OFF = 64;

    private static final int PART_OVERHEAD = 256; // of the memory that a part takes besides its bytes
    private static final int SMALL = 1 << 12;

    private static final byte[] NONE = {};

    private final String node;
    private final int limit;
    private final long window;

    // The rest is guarded by its lock.
    private final Room senders = new Room(this);
    private byte[] bytes = new byte[SMALL];
    private int start;
    private int end;
    private Waiter taker;
    private long forced; // bytes that were added without a wait while it was full
    private long taken; // the cost of all parts
    private long processed; // of these, as far as the other side has told
    private boolean overflowed;
    private boolean closed; // nothing is added any more

    /**
     * An empty outbox.
     *
     * @param node the name of the other node, which {@code inspect} shows
     * @param limit the number of bytes from which on senders wait
     * @param window the cost from which on nothing is taken, until the other side has processed some
     */
    public Outbox(String node, int limit, long window) {
        this.node = node;
        this.limit = limit;
        this.window = window;
    }

    /** What a part of so many bytes costs. */
    public static int cost(int length) {
        return length + PART_OVERHEAD;
    }

    /**
     * Adds bytes, all or none. Never waits. If it is closed they are dropped.
     *
     * @param waited whether the sender has waited for room before
     */
    public void add(byte[] signal, int from, int length, boolean waited) {
        Waiter woken;
        boolean closes;
        Simulated.switchPoint();
        synchronized (this) {
            if (closed) {
                return;
            }
            closes = !waited && forced >= (long) CUT_OFF * limit;
            if (closes) {
                overflowed = true;
                closed = true;
                drop();
            } else {
                append(signal, from, length);
                forced += waited || end - start - length < limit ? 0 : length;
            }
            woken = claimTaker();
        }
        if (woken != null) {
            woken.complete(this, null);
        }
        if (closes) {
            senders.wake(Room.ALL);
        }
    }

    /** True if it has closed itself, because too much was added without a wait. */
    public synchronized boolean hasOverflowed() {
        return overflowed;
    }

    private void append(byte[] signal, int from, int length) {
        makeRoom(length);
        System.arraycopy(signal, from, bytes, end, length);
        end += length;
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
        senders.await(WaitReason.NODE_ROOM, node);
    }

    /** Under the lock. */
    @Override
    public boolean isFull() {
        return !closed && end - start >= limit;
    }

    // --- the fiber that takes ----------------------------------------------------------------------------------------

    /**
     * Takes a part: as many bytes as there are and fit into the array behind the position. Waits until there are some, and
     * the window is not full; returns -1 if it is closed and empty.
     */
    public int take(byte[] target, int from) throws InterruptedException {
        Fiber fiber = Fiber.current();
        fiber.enter();
        for (;;) {
            Parked waiter = new Parked(fiber, isWindowFull() ? WaitReason.NODE_READER : WaitReason.NODE_SIGNALS, node);
            int length = takeOrWait(target, from, waiter);
            if (length != 0) {
                senders.wake(Room.ALL);
                return length;
            }
            waiter.await();
            fiber.check();
        }
    }

    private synchronized boolean isWindowFull() {
        return taken - processed >= window;
    }

    private int takeOrWait(byte[] target, int from, Waiter waiter) {
        Simulated.switchPoint();
        synchronized (this) {
            if (closed && start == end) {
                return -1;
            }
            int n = isWindowFull() ? 0 : Math.min(target.length - from, end - start);
            if (n == 0) {
                taker = waiter;
                return 0;
            }
            System.arraycopy(bytes, start, target, from, n);
            start += n;
            taken += cost(n);
            forced = Math.max(0, forced - n);
            if (start == end) {
                start = 0;
                end = 0;
                bytes = bytes.length > 2 * Math.max(limit, SMALL) ? new byte[SMALL] : bytes;
            }
            return n;
        }
    }

    /** The other side has processed all parts up to this cost, from the first one on. */
    public void processed(long position) {
        Waiter woken;
        synchronized (this) {
            if (position <= processed || position > taken) {
                return;
            }
            processed = position;
            woken = claimTaker();
        }
        if (woken != null) {
            woken.complete(this, null);
        }
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
                drop();
            }
            woken = claimTaker();
        }
        if (woken != null) {
            woken.complete(this, null);
        }
        senders.wake(Room.ALL);
    }

    private void drop() {
        start = 0;
        end = 0;
        bytes = NONE;
    }
}
