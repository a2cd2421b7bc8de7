package magnetar.kernel.report;

/** An error without a stack that ends a fiber which has to end. It is not a failure, and never reported. */
public abstract class Unwinding extends Error {
    private static final long serialVersionUID = 1L;

    /** For subclasses, which say in {@link #getMessage} why the fiber has to end. */
    protected Unwinding() {}

    /** Leaves the stack out. It can get a cause later, unlike by the constructor of {@link Error} for that. */
    @Override
    public final synchronized Throwable fillInStackTrace() {
        return this;
    }
}
