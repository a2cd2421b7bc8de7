package magnetar.kernel.channel;

import java.util.function.BooleanSupplier;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Timer;
import magnetar.kernel.time.Wheel;

/**
 * A channel that closes by itself at an instant. Two callers never share one.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The wheel holds the channel only while a waiter is queued on it. Otherwise each operation checks the
 *       clock first. So a channel without waiters costs no timer and can be collected before its time.
 *   <li>After a thread has queued or removed a waiter, it compares the timer with the queues. If they differ,
 *       it adjusts the timer under the monitor, and repeats that until they agree.
 * </ol>
 *
 * <p>Lock order: the monitor, then the channel; the monitor, then the wheel.
 */
public class TimeoutChannel extends Channel<Object> {
    private static final long NOW = Long.MIN_VALUE;

    private final Environment environment;
    private final long dueNanos;

    // Written under the monitor, read by any thread.
    private volatile Closing closing;

    /** For a {@link ChannelMaker}. Programs use {@link #after}. */
    protected TimeoutChannel(Environment environment, long dueNanos) {
        super(null, false);
        this.environment = environment;
        this.dueNanos = dueNanos;
    }

    /** A channel that closes after so many nanoseconds; at once for zero or less. */
    public static Channel<Object> after(long nanos) {
        Environment environment = Fiber.current().environment();
        return ChannelMaker.current().timeout(environment, nanos <= 0 ? NOW : Durations.deadline(environment.nanoTime(), nanos));
    }

    @Override
    public boolean isClosed() {
        beforeOperation();
        return super.isClosed();
    }

    @Override
    void beforeOperation() {
        if (!super.isClosed() && isDue()) {
            close(null);
        }
    }

    private boolean isDue() {
        return dueNanos == NOW || dueNanos != Durations.INFINITE && environment.nanoTime() - dueNanos >= 0;
    }

    @Override
    void afterUnlock() {
        if (dueNanos != Durations.INFINITE && isAwaited() != (closing != null)) {
            adjust();
        }
    }

    private boolean isAwaited() {
        return !super.isClosed() && !(NodeQueue.isEmpty(takers) && NodeQueue.isEmpty(putters));
    }

    private synchronized void adjust() {
        // Checks again after each change: T1 changes the timer; T2 queues a waiter, reads the timer as it was
        // before, and so does not adjust it.
        Awaited question = new Awaited();
        for (boolean awaited = underLock(question); awaited != (closing != null); awaited = underLock(question)) {
            if (awaited) {
                closing = new Closing();
                Wheel.of(environment).add(closing);
            } else {
                Wheel.of(environment).cancel(closing);
                closing = null;
            }
        }
    }

    /** The question for {@link #underLock}. */
    private final class Awaited implements BooleanSupplier {
        @Override
        public boolean getAsBoolean() {
            return isAwaited();
        }
    }

    /** The timer that closes the channel. */
    private final class Closing extends Timer {
        Closing() {
            super(dueNanos);
        }

        @Override
        protected void expire() {
            close(null);
        }
    }
}
