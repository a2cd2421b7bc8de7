package magnetar.kernel.scope;

import magnetar.kernel.fiber.BeforeInterrupt;
import magnetar.kernel.fiber.Cause;
import magnetar.kernel.fiber.FiberBody;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.park.Latch;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Timer;
import magnetar.kernel.time.Waits;
import magnetar.kernel.time.Wheel;

/**
 * A function that is called, on a fiber of its own, before the interrupt of a cancelled fiber. It ends what the
 * fiber waits for in a gentler way, such as the cancellation of a query, which keeps the connection.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The interrupt comes when the fiber has closed this, and at the latest when its time is over.
 *   <li>{@link #close} returns when the function has returned, and at the latest when its time is over. The
 *       function is interrupted then.
 * </ol>
 */
public final class OnCancel extends BeforeInterrupt implements AutoCloseable {
    private final Runnable function;
    private final long nanos;
    private final Object context;
    private final Latch over = new Latch();

    // Written by the thread that cancels, before the state is seen.
    private volatile Timer limit;

    private OnCancel(Runnable function, long nanos) {
        this.function = function;
        this.nanos = nanos;
        this.context = fiber().outgoing();
    }

    /**
     * Calls the function if the current fiber is cancelled before {@link #close}, or before it leaves the
     * innermost scope.
     *
     * @param nanos for how long the interrupt is held back; {@link Long#MAX_VALUE} for ever
     */
    public static OnCancel open(Runnable function, long nanos) {
        OnCancel onCancel = new OnCancel(function, nanos);
        onCancel.open();
        return onCancel;
    }

    @Override
    protected void begin() {
        Call call = new Call();
        Fibers.start(fiber().environment(), "on-cancel", context, call);
        if (nanos != Durations.INFINITE) {
            limit = new Limit(call);
            Wheel.of(fiber().environment()).add(limit);
        }
    }

    /** The call of the function. */
    private final class Call extends FiberBody {
        @Override
        protected void execute() {
            function.run();
        }

        @Override
        protected void ended() {
            over.release();
        }

        void interrupt() {
            fiber().cancel(new Cause.Cancel("its time is over"));
        }
    }

    /** The end of its time. */
    private final class Limit extends Timer {
        private final Call call;

        Limit(Call call) {
            super(Durations.deadline(fiber().environment().nanoTime(), nanos));
            this.call = call;
        }

        @Override
        protected void expire() {
            timeIsOver();
            over.release();
            call.interrupt();
        }
    }

    @Override
    protected void awaitEnd() {
        boolean interrupted = false;
        while (!over.isReleased()) {
            try {
                Waits.await(over, WaitReason.CALLBACK, this, Durations.INFINITE);
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (limit != null) {
            Wheel.of(fiber().environment()).cancel(limit);
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public String toString() {
        return "#<OnCancel " + function + ">";
    }
}
