package magnetar.kernel.fiber;

/**
 * A cancellation scope: a part of a fiber's execution that can be cancelled as a whole, such as the body of a
 * scope. The cancellation scopes of a fiber nest.
 *
 * <p>Invariant: the cause is written before the fiber's thread is interrupted, and never removed; only a kill
 * may replace another one. Leaving the cancellation scope ends its effect and withdraws the interrupt that
 * came with it.
 */
public abstract class CancellationScope {
    // Written by the fiber that is in the cancellation scope. Other threads may read a stale value.
    CancellationScope outer;
    Fiber fiber;

    // Set or read by any thread.
    private volatile Cause cause;

    /** For subclasses. */
    protected CancellationScope() {}

    /** The fiber that is, or was, in the cancellation scope; null while it is vacant. */
    public final Fiber fiber() {
        return fiber;
    }

    /** The cancellation scope around this one, as its fiber sees it. */
    public final CancellationScope outer() {
        return outer;
    }

    /** Why everything in the cancellation scope has to end, or null. */
    public final Cause cause() {
        return cause;
    }

    /** Sets the fiber that will enter the cancellation scope, if it is known in advance. */
    protected final void expect(Fiber soon) {
        fiber = soon;
    }

    /**
     * Writes the cause, then interrupts the fiber in the cancellation scope. Not called once the cancellation
     * scope was left for good. Called twice only for a kill.
     */
    protected final void cancelWith(Cause why) {
        cause = why;
        Fiber f = fiber;
        if (f != null) {
            f.interrupt(this);
        }
    }
}
