package magnetar.kernel.time;

import magnetar.kernel.park.Parked;

/** An action that is due at an instant. Used once; see {@link Wheel}. */
public abstract class Timer {
    /** The slot of a timer that is in no slot. */
    static final int NOWHERE = -1;

    final long dueNanos;

    // Guarded by the wheel's lock.
    Timer previous;
    Timer next;
    int slot = NOWHERE;

    /** A timer due at this instant of the environment's clock. */
    protected Timer(long dueNanos) {
        this.dueNanos = dueNanos;
    }

    /** The wait that it ends, or null. */
    Parked waiter() {
        return null;
    }

    /** When it ends that wait. */
    long limit() {
        return dueNanos;
    }

    /**
     * Called by the timer thread, outside of the wheel's lock. Runs kernel code only and must not block.
     * Called once, and once more after each time that it threw an OutOfMemoryError. So it must allocate
     * before it changes anything, or be idempotent.
     */
    protected abstract void expire();
}
