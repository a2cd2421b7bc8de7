package magnetar.kernel.channel;

import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.report.Failures;
import magnetar.kernel.time.Wheel;

/**
 * A function that waits for the result of an operation.
 *
 * <p>With {@code onCaller} it runs on the thread that completes the operation, else on a fiber of its own. It
 * never runs on the timer thread or under a lock. {@link Fiber#call} bounds the stack of a chain of
 * callbacks. What the function throws is reported, because it is no failure of the completing thread.
 */
public final class Callback extends Waiter {
    private final long id = Fiber.current().nextId();
    private final Object context = Fiber.current().outgoing();
    private final Handler.Completion target;
    private final boolean onCaller;
    private Select.Losers losers;

    /** Passes the result to {@code target}. */
    public Callback(Handler.Completion target, boolean onCaller) {
        this.target = target;
        this.onCaller = onCaller;
    }

    Callback forSelect(Select.Losers losers) {
        this.losers = losers;
        return this;
    }

    @Override
    public long id() {
        return id;
    }

    @Override
    public boolean isCallback() {
        return true;
    }

    @Override
    public void complete(Object source, Object result) {
        if (losers == null) {
            run(new Delivery(), result, onCaller);
        } else {
            losers.remove();
            run(new Delivery(), new Select.Chosen(((Node) source).index, result), onCaller);
        }
    }

    /** Delivers with the context values of the fiber that queued the callback. */
    private final class Delivery implements Handler.Completion {
        @Override
        public void complete(Object result) {
            Fiber fiber = Fiber.current();
            Object before = fiber.enterContext(context);
            try {
                target.complete(result);
            } finally {
                fiber.leaveContext(before);
            }
        }
    }

    /** Runs the function with the result of an operation that had been queued. */
    public static void run(Handler.Completion target, Object result, boolean onCaller) {
        if (onCaller && !Wheel.isTimerThread()) {
            Fiber.current().call(new Task(target, result, true));
        } else {
            Fibers.start("callback", Fibers.Hold.STRONG, new Task(target, result, false));
        }
    }

    private record Task(Handler.Completion target, Object result, boolean guarded) implements Runnable {
        @Override
        public void run() {
            if (guarded) {
                completeGuarded();
            } else {
                target.complete(result);
            }
        }

        private void completeGuarded() {
            try {
                target.complete(result);
            } catch (Throwable t) {
                Failures.report(Thread.currentThread(), t);
            }
        }
    }
}
