package magnetar.kernel.scope;

import java.util.concurrent.Callable;
import magnetar.kernel.fiber.BeforeInterrupt;
import magnetar.kernel.fiber.Cancelled;
import magnetar.kernel.fiber.Cause;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.FiberBody;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.park.Latch;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.report.Unwinding;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Timer;
import magnetar.kernel.time.Waits;
import magnetar.kernel.time.Wheel;

/**
 * Work with a function that ends it when it is cancelled, in a gentler way than an interrupt. An example is the
 * cancellation of a query, which keeps the connection. The function is called on a fiber of its own.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The interrupt comes when the work has ended, and at the latest when the function's time is over.
 *   <li>{@link #call} returns when the function has returned, and at the latest when its time is over. The
 *       function is interrupted then, and not called if it has not begun.
 * </ol>
 */
public final class OnCancel extends BeforeInterrupt {
    private final String site;
    private final Runnable function;
    private final long nanos;
    private final Object context;
    private final Latch over = new Latch();

    // Written by the thread that cancels, before it releases the latch or starts what does.
    private Timer limit;

    private OnCancel(String site, Runnable function, long nanos) {
        this.site = site;
        this.function = function;
        this.nanos = nanos;
        this.context = fiber.outgoing();
    }

    /**
     * Does the work. Calls the function if the current fiber is cancelled before the work has ended. What the work
     * throws after that becomes the cause of a cancellation, because the function may have ended it so.
     *
     * @param site the source line, which names the fiber of the function
     * @param nanos for how long the interrupt is held back; {@link Long#MAX_VALUE} for ever
     */
    public static Object call(String site, Runnable function, long nanos, Callable<?> work) throws Throwable {
        OnCancel onCancel = new OnCancel(site, function, nanos);
        Object value;
        onCancel.open();
        try {
            value = work.call();
        } catch (Exception | Cancelled e) {
            throw onCancel.close() ? onCancel.cancellation(e) : e;
        } catch (Throwable t) {
            onCancel.close();
            throw t;
        }
        onCancel.close();
        return value;
    }

    private Throwable cancellation(Throwable cause) {
        try {
            fiber.check();
            return cause;
        } catch (Unwinding cancelled) {
            return cancelled.initCause(cause);
        }
    }

    @Override
    protected void begin() {
        Fiber caller = null;
        try {
            caller = Fibers.prepare(fiber.environment(), site, context, new Call());
            if (nanos != Durations.INFINITE) {
                limit = new Limit(caller);
                Wheel.of(fiber.environment()).add(limit);
            }
            Fibers.begin(caller);
        } catch (Throwable noRoom) {
            if (caller != null) {
                Fibers.discard(caller);
            }
            timeIsOver();
            over.release();
        }
    }

    /** The call of the function. */
    private final class Call extends FiberBody {
        @Override
        protected void execute() {
            fiber().check();
            function.run();
        }

        @Override
        protected void ended() {
            over.release();
        }
    }

    /** The end of the function's time. */
    private final class Limit extends Timer {
        private final Fiber caller;

        Limit(Fiber caller) {
            super(Durations.deadline(fiber.environment().nanoTime(), nanos));
            this.caller = caller;
        }

        @Override
        protected void expire() {
            caller.cancel(new Cause.Cancel("its time is over"));
            timeIsOver();
            over.release();
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
            Wheel.of(fiber.environment()).cancel(limit);
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public String toString() {
        return "#<OnCancel " + site + ">";
    }
}
