package magnetar.kernel.fiber;

import java.net.SocketException;
import java.nio.channels.ClosedByInterruptException;
import magnetar.kernel.report.Unwinding;

/**
 * Thrown by every kernel operation in a fiber that was cancelled. An {@code Error} without a stack: it is not a failure to
 * report, and {@code (catch Exception ..)} does not swallow it.
 */
public final class Cancelled extends Unwinding {
    private static final long serialVersionUID = 1L;
    private static final int CAUSES = 16; // a chain of causes may be a ring
    private final transient Object why;

    /** Cancelled for this reason, which may be null. */
    public Cancelled(Object why) {
        this.why = why;
    }

    /**
     * True if the error or one of its causes is a cancellation, or an operation's answer to the interrupt
     * that comes with one.
     */
    public static boolean isBehind(Throwable error) {
        Throwable t = error;
        for (int depth = 0; t != null && depth < CAUSES; depth++) {
            if (isInterruption(t)) {
                return true;
            }
            t = t.getCause();
        }
        return false;
    }

    private static boolean isInterruption(Throwable t) {
        return t instanceof Cancelled || t instanceof InterruptedException || t instanceof ClosedByInterruptException
                || t instanceof SocketException && "Closed by interrupt".equals(t.getMessage());
    }

    /** The reason that the cancelling thread gave, or null. */
    public Object why() {
        return why;
    }

    @Override
    public String getMessage() {
        return why == null ? "cancelled" : "cancelled: " + Exit.say(why);
    }
}
