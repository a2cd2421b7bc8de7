package magnetar.kernel.fiber;

import java.util.concurrent.locks.LockSupport;

/**
 * Work of a fiber before whose end no cancellation from outside of the work interrupts the fiber. The first one
 * {@link #begin begins} what ends the work in another way. The interrupt comes at {@link #close}, or when
 * {@link #timeIsOver}.
 *
 * <p>Invariants:
 * <ol>
 *   <li>No cancellation is missed. T1 writes its cause, locks the fiber, then looks for an open one. T2, the
 *       fiber, locks itself to open one, then reads the causes. At least one sees the other.
 *   <li>It holds back the interrupts of the cancellation scopes that it was opened in, and no other ones. If
 *       nothing is open any more for an interrupt, the next outer one is asked.
 *   <li>{@link #begin} is called at most once, and not after the close.
 *   <li>No interrupt that it concerns is sent while it holds them back, and none by it after {@link #close}.
 *   <li>A {@link Shield} holds them back until its close, whatever comes.
 *   <li>What has interrupted the fiber inside is over when the fiber leaves it: a cancellation scope, or an
 *       inner one whose {@link #timeIsOver time was over}, also if that came during {@link #close}. The fiber
 *       then clears the interrupt and {@link Fiber#interruptAgain asks} for all that are left. The outer ones
 *       hold back what concerns them.
 * </ol>
 *
 * <p>The innermost one is in the fiber's rare fields: a fiber that opens none pays nothing.
 *
 * <p>Lock order: the fiber, as a Java monitor, is the innermost lock. It is held for a few instructions.
 */
public abstract class BeforeInterrupt {
    private enum State {
        OPEN,
        BEGUN,
        OVERDUE,
        CLOSED
    }

    /** The fiber that it belongs to. */
    protected final Fiber fiber;

    private final BeforeInterrupt outer;
    private final boolean isShield;
    private final CancellationScope within;
    private final CancellationScope masked; // it does not concern this cancellation scope and its outer ones
    private final boolean isMasked; // it does not concern the fiber's own cause

    // Guarded by the fiber's monitor.
    private State state = State.OPEN;

    /** For the current fiber, in the cancellation scope that it is in. What a shield masks does not concern it. */
    protected BeforeInterrupt() {
        this(Fiber.current(), false);
    }

    private BeforeInterrupt(Fiber fiber, boolean isShield) {
        this.fiber = fiber;
        this.outer = fiber.beforeInterrupt();
        this.isShield = isShield;
        this.within = fiber.cancellationScope();
        this.isMasked = !isShield && fiber.hasShield();
        this.masked = isShield ? null : fiber.maskedScope();
    }

    /** Holds back the interrupts of all that a shield masks, also from waits of the JDK. */
    static final class Shield extends BeforeInterrupt {
        private Shield(Fiber fiber) {
            super(fiber, true);
        }

        /** For the current fiber; null without memory. */
        static Shield raise(Fiber fiber) {
            try {
                Shield shield = new Shield(fiber);
                fiber.setBeforeInterrupt(shield);
                return shield;
            } catch (OutOfMemoryError noRoom) {
                return null;
            }
        }

        @Override
        protected void begin() {}

        @Override
        protected void awaitEnd() {}
    }

    /**
     * Called once, by the thread that cancels, which may hold locks. May end the work, on another fiber. Must not
     * throw.
     */
    protected abstract void begin();

    /** Waits until what has begun has ended, or its time is over. Called by the fiber, in a shield. */
    protected abstract void awaitEnd();

    /** From now on interrupts are held back. Throws the cause, and closes it, if the fiber is cancelled already. */
    protected final void open() {
        fiber.setBeforeInterrupt(this);
        Simulated.switchPoint();
        if (fiber.isCancelled()) {
            close();
            fiber.check();
        }
    }

    /**
     * Ends it; the innermost one first. If it has begun, waits for the end of that, so that it meets nothing that
     * the fiber does afterwards. Then delivers the interrupts. True if it had begun.
     */
    protected final boolean close() {
        if (closeUnbegun()) {
            return false;
        }
        try {
            fiber.shield(new Ending(this));
        } finally {
            synchronized (fiber) {
                end();
            }
            fiber.interruptAgain();
        }
        return true;
    }

    private boolean closeUnbegun() {
        Simulated.switchPoint();
        synchronized (fiber) {
            return state == State.OPEN && end();
        }
    }

    private boolean end() {
        state = State.CLOSED;
        fiber.setBeforeInterrupt(outer);
        return true;
    }

    /** Waits for the end of what has begun, as a clean-up in a shield. */
    private record Ending(BeforeInterrupt work) implements Runnable {
        @Override
        public void run() {
            work.awaitEnd();
        }
    }

    /** Called when there was enough time: interrupts the fiber, unless this was closed or a shield is in it. */
    protected final void timeIsOver() {
        synchronized (fiber) {
            if (state == State.BEGUN) {
                state = State.OVERDUE;
                interruptFromInside();
            }
        }
    }

    private void interruptFromInside() {
        BeforeInterrupt b = fiber.beforeInterrupt();
        while (b != this && !b.isShield) {
            b = b.outer;
        }
        if (b == this) {
            fiber.interruptNow();
        } else {
            b.state = State.BEGUN;
        }
    }

    private boolean concerns(CancellationScope cancelled) {
        CancellationScope r = within;
        while (r != masked && r != cancelled) {
            r = r.outer;
        }
        return cancelled == null ? !isMasked : r != masked;
    }

    /**
     * Interrupts a fiber because this cancellation scope of it was cancelled; null for the fiber itself. Or the
     * interrupt is held back, except the one of a kill that follows another cancellation.
     */
    static void interrupt(Fiber fiber, CancellationScope cancelled) {
        BeforeInterrupt b;
        boolean begins;
        Simulated.switchPoint();
        synchronized (fiber) {
            b = fiber.beforeInterrupt();
            while (b != null && (b.state.compareTo(State.BEGUN) > 0 || !b.concerns(cancelled))) {
                b = b.outer;
            }
            begins = b != null && b.state == State.OPEN;
            if (b == null || !begins && !b.isShield && (cancelled == null ? fiber.cause() : cancelled.cause()) instanceof Cause.Kill) {
                fiber.interruptNow();
                return;
            }
            b.state = State.BEGUN;
        }
        if (begins) {
            b.begin();
        }
        LockSupport.unpark(fiber.get()); // an operation of the kernel throws at once
    }
}
