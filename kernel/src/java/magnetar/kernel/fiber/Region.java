package magnetar.kernel.fiber;

/**
 * A stretch of a fiber's execution that can be doomed as a whole, such as the body of a scope. Regions of one fiber nest.
 *
 * <p>Invariant: the cause is written before the fiber's thread is interrupted, and never taken back, though a kill may replace another one;
 * leaving the region ends its effect, and withdraws the interrupt that came with it.
 */
public abstract class Region {
    // Written by the fiber that is in the region; others read the last one as a guess.
    Region outer;
    Fiber fiber;

    // Set or read by any thread.
    private volatile Cause cause;

    /** For subclasses. */
    protected Region() {}

    /** The fiber that is, or was, in the region; null while it is vacant. */
    public final Fiber fiber() {
        return fiber;
    }

    /** The region around this one, as the fiber in it sees it. */
    public final Region outer() {
        return outer;
    }

    /** Why everything in the region has to end, or null. */
    public final Cause cause() {
        return cause;
    }

    /** The fiber that will be in the region, if it is known before. */
    protected final void expect(Fiber soon) {
        fiber = soon;
    }

    /** Writes the cause, then interrupts the fiber in the region. Never called after the region was left, but to be entered again; twice only to kill. */
    protected final void doomRegion(Cause why) {
        cause = why;
        Fiber f = fiber;
        if (f != null) {
            f.interrupt();
        }
    }
}
