package magnetar.kernel.fiber;

import java.util.function.Function;
import magnetar.kernel.report.Unwinding;

/**
 * Thrown by every kernel operation in a process that has to exit. An {@code Error} without a stack: it is not
 * a failure to report, and {@code (catch Exception ..)} does not swallow it.
 *
 * <p>The reason may be infinite, or fail to print. So it is printed only when the message is asked for, and
 * only as far as {@link #setText} bounds it.
 */
public final class Exit extends Unwinding {
    private static final long serialVersionUID = 1L;

    // Set or read by any thread.
    private static volatile Function<Object, String> toText = String::valueOf;

    private final transient Object reason;

    /** An exit with this reason. */
    public Exit(Object reason) {
        this.reason = reason;
    }

    /** Sets the function that prints a reason as text of bounded length, here and in {@link Cancelled}. */
    public static void setText(Function<Object, String> next) {
        toText = next;
    }

    /** The value as text. Throws nothing except for lack of memory. */
    static String say(Object value) {
        try {
            return toText.apply(value);
        } catch (Exception | StackOverflowError unspeakable) {
            return "(" + value.getClass().getName() + ", which does not print)";
        }
    }

    /** The exit reason, as links and monitors will see it. */
    public Object reason() {
        return reason;
    }

    @Override
    public String getMessage() {
        return "exit: " + say(reason);
    }
}
