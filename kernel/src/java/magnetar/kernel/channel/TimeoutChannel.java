package magnetar.kernel.channel;

import java.util.function.BooleanSupplier;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.World;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Timer;
import magnetar.kernel.time.Wheel;

/**
 * A channel that closes by itself at an instant. It belongs to its caller alone.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The wheel holds it only while somebody waits on it. Otherwise each operation looks at the clock first, so one that nobody
 *       waits on costs no timer and can be collected before its time.
 *   <li>Whoever changes whether somebody waits, and then finds the timer otherwise, adjusts it under the monitor, until it finds
 *       it right after its own change.
 * </ol>
 *
 * <p>Lock order: the monitor, then the channel; the monitor, then the wheel.
 */
public class TimeoutChannel extends Channel<Object> {
    private static final long NOW = Long.MIN_VALUE;

    private final World world;
    private final long dueNanos;

    // Written under the monitor, read by any thread.
    private volatile Closing closing;

    /** For a {@link ChannelMaker}; programs take {@link #after}. */
    protected TimeoutChannel(World world, long dueNanos) {
        super(null, false);
        this.world = world;
        this.dueNanos = dueNanos;
    }

    /** A channel that closes after so many nanoseconds; at once if none. */
    public static Channel<Object> after(long nanos) {
        World world = Fiber.current().world();
        return ChannelMaker.current().timeout(world, nanos <= 0 ? NOW : Durations.deadline(world.nanoTime(), nanos));
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
        return dueNanos == NOW || dueNanos != Durations.INFINITE && world.nanoTime() - dueNanos >= 0;
    }

    @Override
    void afterUnlock() {
        if (dueNanos != Durations.INFINITE && isAwaited() != (closing != null)) {
            adjust();
        }
    }

    private boolean isAwaited() {
        return !super.isClosed() && !(takers.isEmpty() && putters.isEmpty());
    }

    private synchronized void adjust() {
        // Looks again after each change: whoever saw the timer as it was before relies on it.
        Awaited question = new Awaited();
        for (boolean awaited = underLock(question); awaited != (closing != null); awaited = underLock(question)) {
            if (awaited) {
                closing = new Closing();
                Wheel.of(world).add(closing);
            } else {
                Wheel.of(world).cancel(closing);
                closing = null;
            }
        }
    }

    /** Asked under the lock. */
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
