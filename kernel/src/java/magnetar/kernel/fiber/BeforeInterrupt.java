package magnetar.kernel.fiber;

import java.util.concurrent.ConcurrentHashMap;

/**
 * Something to be done before a fiber is interrupted. It begins when the part of the fiber's execution is
 * cancelled in which it was opened. The interrupt is held back until {@link #close}, or until
 * {@link #timeIsOver}.
 *
 * <p>Invariants:
 * <ol>
 *   <li>No cancellation is missed: {@link #open} makes it visible, then looks for a cause. A cancellation
 *       writes its cause, then looks here.
 *   <li>It begins at most once, and only if it was not closed.
 *   <li>An interrupt that is held back is sent: at the close, by the fiber itself, or when time is over.
 *   <li>No interrupt that it holds back is sent after {@link #close} has returned, since both happen under its
 *       lock. The interrupt of a cancellation that found it closed is an ordinary one.
 * </ol>
 *
 * <p>A fiber that never opens one pays a read of a static field for each cancellation scope it leaves.
 * Rejected: a field of the fiber, since nearly all fibers would have it for nothing.
 *
 * <p>Lock order: its lock, the Java monitor, is the innermost one. It is held for a few instructions.
 */
public abstract class BeforeInterrupt {
    private static final ConcurrentHashMap<Fiber, BeforeInterrupt> INNERMOST = new ConcurrentHashMap<>();
    private static volatile boolean used;

    private enum State {
        OPEN,
        BEGUN,
        OVERDUE,
        CLOSED
    }

    private final Fiber fiber;
    private final CancellationScope within;
    private final CancellationScope masked; // by a shield: this cancellation scope and its outer ones
    private final boolean shielded;

    // Written by the fiber, read by any thread.
    private volatile BeforeInterrupt outer;

    // Guarded by its lock.
    private State state = State.OPEN;

    /** For the current fiber, in the cancellation scope that it is in. */
    protected BeforeInterrupt() {
        this.fiber = Fiber.current();
        this.within = fiber.cancellationScope();
        this.shielded = fiber.hasShield();
        this.masked = fiber.maskedScope();
    }

    /** The fiber that it belongs to. */
    protected final Fiber fiber() {
        return fiber;
    }

    /**
     * Begins the work, on another fiber. Called once, by the thread that cancels, which may hold locks. If it
     * throws, the fiber is interrupted at once.
     */
    protected abstract void begin();

    /** Waits until the work has ended, or its time is over. Called by the fiber, in a shield. */
    protected abstract void awaitEnd();

    /** From now on a cancellation begins the work. Throws the cause if the fiber is cancelled already. */
    protected final void open() {
        used = true;
        outer = INNERMOST.get(fiber);
        INNERMOST.put(fiber, this);
        if (isWanted()) {
            close();
            fiber.check();
        }
    }

    /**
     * Ends it, which only the fiber may do. Waits for work that has begun, then interrupts the fiber. So the
     * work meets nothing that the fiber does afterwards.
     *
     * @throws IllegalStateException in another fiber
     */
    public final void close() {
        if (Fiber.current() != fiber) {
            throw new IllegalStateException(this + " was opened in another fiber: close it there, as `with-open` does.");
        }
        if (hasBegun()) {
            fiber.shield(new Ending(this));
        }
        if (closed() == State.BEGUN) {
            fiber.interrupt(); // or begins the next outer one
        }
    }

    /** Waits for the end of the work, as a clean-up in a shield. */
    private record Ending(BeforeInterrupt work) implements Runnable {
        @Override
        public void run() {
            work.awaitEnd();
        }
    }

    private synchronized boolean hasBegun() {
        return state == State.BEGUN;
    }

    private State closed() {
        unlink();
        synchronized (this) {
            State before = state;
            state = State.CLOSED;
            return before;
        }
    }

    private void unlink() {
        BeforeInterrupt innermost = INNERMOST.get(fiber);
        if (innermost == this) {
            replace(outer);
            return;
        }
        while (innermost != null && innermost.outer != this) {
            innermost = innermost.outer;
        }
        if (innermost != null) {
            innermost.outer = outer;
        }
    }

    private void replace(BeforeInterrupt next) {
        if (next == null) {
            INNERMOST.remove(fiber);
        } else {
            INNERMOST.put(fiber, next);
        }
    }

    /** True if a cancellation that its shield does not mask has a cause. */
    private boolean isWanted() {
        if (!shielded && fiber.cause() != null) {
            return true;
        }
        for (CancellationScope r = within; r != masked; r = r.outer) {
            if (r.cause() != null) {
                return true;
            }
        }
        return false;
    }

    /** Called when the work has had its time: interrupts the fiber, unless it was closed. */
    protected final synchronized void timeIsOver() {
        if (state == State.BEGUN) {
            state = State.OVERDUE;
            fiber.interruptNow();
        }
    }

    /** Holds the interrupt back if it can; true if so. */
    private boolean holdBack() {
        synchronized (this) {
            if (state != State.OPEN) {
                return state == State.BEGUN;
            }
            state = State.BEGUN;
        }
        try {
            begin();
            return true;
        } catch (Throwable noRoom) {
            timeIsOver();
            return true;
        }
    }

    /** Called for a fiber whose cause was written: true if the interrupt comes later. */
    static boolean delays(Fiber fiber) {
        if (!used) {
            return false;
        }
        BeforeInterrupt b = INNERMOST.get(fiber);
        while (b != null && !b.isWanted()) {
            b = b.outer;
        }
        return b != null && b.holdBack();
    }

    /** Closes what the fiber, which is the current one, has opened in a cancellation scope that it leaves. */
    static void leave(Fiber fiber, CancellationScope left) {
        if (used) {
            for (BeforeInterrupt b = INNERMOST.get(fiber); b != null && b.within == left; b = INNERMOST.get(fiber)) {
                b.close();
            }
        }
    }

    /** Forgets what a fiber that has ended left open. */
    static void forget(Fiber fiber) {
        if (used) {
            INNERMOST.remove(fiber);
        }
    }
}
