package magnetar.kernel.report;

/** An error without a stack that ends a fiber which has to end: no failure, and so never reported. */
public abstract class Unwinding extends Error {
    private static final long serialVersionUID = 1L;

    /** For subclasses, which say what has to end in {@link #getMessage}. */
    protected Unwinding() {
        super(null, null, true, false);
    }
}
