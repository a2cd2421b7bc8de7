package magnetar.kernel.time;

/** Something that is due at an instant. Made for one use; see {@link Wheel}. */
public abstract class Timer {
    /** The slot of a timer that is in none. */
    static final int NOWHERE = -1;

    final long dueNanos;

    // Guarded by the wheel's lock.
    Timer previous;
    Timer next;
    int slot = NOWHERE;

    /** A timer due at this instant of the world's clock. */
    protected Timer(long dueNanos) {
        this.dueNanos = dueNanos;
    }

    /**
     * Called by the timer thread, outside of the wheel's lock. Runs kernel code only and must not block. Called once, and again after each time that it has
     * thrown an OutOfMemoryError: so it allocates before it changes anything, or does the same again.
     */
    protected abstract void expire();
}
