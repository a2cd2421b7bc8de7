package magnetar.kernel.channel;

import java.util.concurrent.Callable;
import magnetar.kernel.fiber.FiberBody;
import magnetar.kernel.report.Failures;

/**
 * Computes a value on a fiber and hands it to a channel, which closes after it, or without it if there is none.
 *
 * <p>Invariant: a failure is reported before the channel closes. A program that ends when it closes shows the report all the same.
 */
public final class GoBody extends FiberBody {
    private final Channel<Object> out;

    // Only accessed by the fiber; cleared so that what the body closes over can be collected while it runs.
    private Callable<?> body;

    /** The value of {@code body}, unless null, goes to {@code out}. */
    public GoBody(Callable<?> body, Channel<Object> out) {
        this.body = body;
        this.out = out;
    }

    private Callable<?> takeBody() {
        Callable<?> b = body;
        body = null;
        return b;
    }

    @Override
    protected void execute() {
        try {
            Object value = takeBody().call();
            if (value != null) {
                out.putNow(value, null, null);
            }
        } catch (Throwable t) {
            Failures.report(Thread.currentThread(), t);
        } finally {
            out.close();
        }
    }
}
