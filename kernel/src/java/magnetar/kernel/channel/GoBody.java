package magnetar.kernel.channel;

import java.util.concurrent.Callable;
import magnetar.kernel.fiber.FiberBody;
import magnetar.kernel.report.Failures;

/**
 * Computes a value on a fiber, puts it on a channel unless it is null, and closes the channel.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A failure is reported before the channel closes. So a program that ends when the channel closes still
 *       shows the report.
 *   <li>While the body runs, the channel names its fiber as the {@link Channel#finisher}.
 * </ol>
 */
public final class GoBody extends FiberBody {
    private final Channel<Object> out;

    // Only accessed by the fiber. Cleared so that the objects it closes over can be collected while it runs.
    private Callable<?> body;

    /** Puts the value of {@code body}, unless null, on {@code out}. */
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
        Object value = null;
        try {
            out.willBeFinishedBy(fiber());
            value = takeBody().call();
        } catch (Throwable t) {
            Failures.report(Thread.currentThread(), t);
        } finally {
            out.finish(value);
        }
    }
}
