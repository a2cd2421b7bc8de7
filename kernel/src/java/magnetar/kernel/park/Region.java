package magnetar.kernel.park;

/**
 * A stretch of a fiber's execution that can be doomed as a whole, such as the body of a scope. Regions of one fiber nest.
 *
 * <p>Invariant: the cause is written before the fiber's thread is interrupted, once, and never taken back; leaving the region ends its
 * effect, and withdraws the interrupt that came with it.
 */
public abstract class Region {
    // Only accessed by the fiber that is in the region.
    Region outer;
    Fiber fiber;

    // Set or read by any thread.
    private volatile Cause cause;

    /** For subclasses. */
    protected Region() {}

    /** The fiber that is, or was, in the region. */
    public final Fiber fiber() {
        return fiber;
    }

    /** Why everything in the region has to end, or null. */
    public final Cause cause() {
        return cause;
    }

    /** Writes the cause, then interrupts the fiber in the region. Called once at most, never after the region was left. */
    protected final void doomRegion(Cause why) {
        cause = why;
        World.switchPoint();
        Thread t = fiber.get();
        if (t != null) {
            t.interrupt();
        }
    }
}
