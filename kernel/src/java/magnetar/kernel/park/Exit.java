package magnetar.kernel.park;

/**
 * Thrown by every kernel operation in a process that has to exit. An {@code Error} without a stack: it is not a failure to
 * report, and {@code (catch Exception ..)} does not swallow it.
 */
public final class Exit extends Error {
    private static final long serialVersionUID = 1L;
    private final transient Object reason;

    /** An exit with this reason. */
    public Exit(Object reason) {
        super("exit: " + reason, null, true, false);
        this.reason = reason;
    }

    /** The exit reason, as links and monitors will see it. */
    public Object reason() {
        return reason;
    }
}
