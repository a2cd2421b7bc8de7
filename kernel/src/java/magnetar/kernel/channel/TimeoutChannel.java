package magnetar.kernel.channel;

import magnetar.kernel.park.Fiber;
import magnetar.kernel.park.World;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Timer;
import magnetar.kernel.time.Wheel;

/**
 * A channel that closes by itself at an instant. It belongs to its caller alone.
 *
 * <p>Invariant: the wheel holds it only while somebody waits on it. Otherwise each operation looks at the clock first, so one
 * that nobody waits on costs no timer and can be collected before its time.
 */
public final class TimeoutChannel extends Channel<Object> {
    private final World world;
    private final long dueNanos;

    // Guarded by the channel's lock.
    private Closing closing;

    private TimeoutChannel(World world, long dueNanos) {
        super(null, false);
        this.world = world;
        this.dueNanos = dueNanos;
    }

    /** A channel that closes after so many nanoseconds; at once if none. */
    public static Channel<Object> after(long nanos) {
        World world = Fiber.current().world();
        long due = nanos <= 0 ? Long.MIN_VALUE : Durations.deadline(world.nanoTime(), nanos);
        return new TimeoutChannel(world, due);
    }

    @Override
    public boolean isClosed() {
        beforeOperation();
        return super.isClosed();
    }

    @Override
    void beforeOperation() {
        if (!super.isClosed() && (dueNanos == Long.MIN_VALUE || world.nanoTime() - dueNanos >= 0 && dueNanos != Durations.INFINITE)) {
            close(null);
        }
    }

    @Override
    void afterEnqueue() {
        if (closing == null && dueNanos != Durations.INFINITE) {
            closing = new Closing();
            Wheel.of(world).add(closing);
        }
    }

    @Override
    void afterRemove() {
        if (takers.isEmpty() && putters.isEmpty()) {
            afterClose();
        }
    }

    @Override
    void afterClose() {
        if (closing != null) {
            Wheel.of(world).cancel(closing);
            closing = null;
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
