package magnetar.kernel.park;

/**
 * Thrown by every kernel operation in a fiber that was cancelled. An {@code Error} without a stack: it is not a failure to
 * report, and {@code (catch Exception ..)} does not swallow it.
 */
public final class Cancelled extends Error {
    private static final long serialVersionUID = 1L;
    private final transient Object why;

    /** Cancelled for this reason, which may be null. */
    public Cancelled(Object why) {
        super(why == null ? "cancelled" : "cancelled: " + why, null, true, false);
        this.why = why;
    }

    /** The reason given by whoever cancelled, or null. */
    public Object why() {
        return why;
    }
}
