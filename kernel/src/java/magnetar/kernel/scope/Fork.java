package magnetar.kernel.scope;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BiFunction;
import magnetar.kernel.fiber.Cancelled;
import magnetar.kernel.fiber.Cause;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.FiberBody;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.park.Latch;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.report.Frames;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Waits;

/**
 * A computation that a scope owns, on a fiber of its own. As a {@link Latch} it is released when the computation
 * has ended.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Value and error are written once. Then the fiber leaves the list of fibers, then the scope learns of
 *       the end, then the latch is released. So a thread that joins one fork and starts the next does not
 *       meet the ended one under the scope's lock.
 *   <li>A fork that has computed its value, and was not told to end before, drops its fiber before the latch
 *       is released: a program may keep a million ended forks. Other threads read the field once per call, and
 *       treat null as the end of the fork.
 * </ol>
 */
public final class Fork extends Latch implements Future<Object> {
    // Set once by the Clojure API, read by any thread.
    private static volatile BiFunction<String, Fork, RuntimeException> refusal = (message, fork) -> new IllegalStateException(message);

    private final Scope scope;
    private final String site;
    private final boolean daemon;

    // Written by the starter before the fiber begins, cleared by the fiber as invariant 2 says. Read by any thread.
    private Fiber fiber;

    // Written by the fiber before the latch opens, read after it.
    private Object value;
    private Throwable error;

    // Links of the scope's list, guarded by its lock.
    Fork previous;
    Fork next;

    Fork(Scope scope, String site, boolean daemon) {
        this.scope = scope;
        this.site = site;
        this.daemon = daemon;
    }

    /**
     * Sets the function that makes the error of a join that would wait for itself. The Clojure API's error
     * carries data.
     */
    public static void setRefusal(BiFunction<String, Fork, RuntimeException> maker) {
        refusal = maker;
    }

    void prepare(Callable<?> work) {
        fiber = Fibers.prepare(site, scope, new Body(work));
    }

    /** Its fiber could not be started, for this reason. */
    void neverBegan(Throwable why) {
        error = why;
        release();
    }

    /** The scope that owns it. */
    public Scope scope() {
        return scope;
    }

    /** The source line that started it. */
    public String site() {
        return site;
    }

    /** True if the scope does not wait for it, but cancels it at its end. */
    public boolean isDaemon() {
        return daemon;
    }

    /** Its fiber; null once it has computed its value without being told to end. */
    public Fiber fiber() {
        return fiber;
    }

    /** Its result, once the latch is released; null if it failed. */
    public Object value() {
        return value;
    }

    /** What it threw, once the latch is released; null if it computed a value. */
    public Throwable error() {
        return error;
    }

    /**
     * True if it ended because it was cancelled: by {@link Cancelled}, or by the interrupt that came with it.
     */
    @Override
    public boolean isCancelled() {
        return isReleased() && error != null && (error instanceof Cancelled || isCancelRequested() && Cancelled.isBehind(error));
    }

    /** True if it was told to end, alone or with its scope. It may still have ended in another way. */
    public boolean isCancelRequested() {
        return ownCause() != null || scope.isCancelled();
    }

    /** Why it was told to end alone, or null. */
    private Cause ownCause() {
        Fiber f = fiber;
        return f == null ? null : f.cause();
    }

    @Override
    public boolean isDone() {
        return isReleased();
    }

    /** Cancels it; see {@link #cancel(Object)}. */
    @Override
    public boolean cancel(boolean mayInterrupt) {
        cancel((Object) null);
        return !isReleased();
    }

    /**
     * Its value, once it has ended. If it threw, an {@link ExecutionException} that names the fork and has
     * that as its cause.
     */
    @Override
    public Object get() throws InterruptedException, ExecutionException {
        await(Durations.INFINITE);
        return outcome();
    }

    @Override
    public Object get(long time, TimeUnit unit) throws InterruptedException, ExecutionException, TimeoutException {
        if (!await(unit.toNanos(time))) {
            throw new TimeoutException(site + " has not ended after " + time + " " + unit.toString().toLowerCase());
        }
        return outcome();
    }

    /** Waits at most so many nanoseconds until it has ended; true if it has. */
    public boolean await(long nanos) throws InterruptedException {
        if (!isReleased()) {
            refuseOwn(Fiber.current());
        }
        return Waits.await(this, WaitReason.FORK_JOIN, this, nanos);
    }

    /**
     * Runs the callback on the fork's fiber when it has ended, or at once if it has ended already. It must be
     * short and must not throw.
     */
    public void whenEnded(Runnable callback) {
        boolean added = add(new Waiter() {
            @Override
            public long id() {
                return 0; // claimed alone, so it needs no place in the order
            }

            @Override
            public void complete(Object source, Object result) {
                callback.run();
            }
        });
        if (!added) {
            callback.run();
        }
    }

    private void refuseOwn(Fiber current) {
        Fiber own = fiber;
        if (own == null) {
            return; // it has ended
        }
        if (current == own) {
            throw refusal.apply("The " + site + " waits for its own end, which would never come: join it outside of it.", this);
        }
        if (Scope.waitsFor(own, current)) {
            throw refusal.apply("The " + Thread.currentThread().getName() + " waits for the end of the " + site
                    + ", which waits for it, in a scope or in offloaded work of its own: join it outside of that.", this);
        }
    }

    private Object outcome() throws ExecutionException {
        if (error != null) {
            throw failure();
        }
        return value;
    }

    private ExecutionException failure() {
        String what = isCancelled() ? " was " + cancellation() : " failed: " + error.getMessage();
        ExecutionException failure = new ExecutionException(site + what, error);
        failure.setStackTrace(Frames.own(failure.getStackTrace()));
        return failure;
    }

    private String cancellation() {
        Cause own = ownCause();
        return (error instanceof Cancelled ? error : (own != null ? own : scope.cause()).toError()).getMessage();
    }

    /**
     * Cancels this fork alone: its next kernel operation, or the one that it waits in, throws
     * {@link Cancelled}.
     */
    public void cancel(Object why) {
        Fiber f = fiber;
        if (f != null) {
            f.cancel(new Cause.Cancel(why));
        }
    }

    /** The fiber's part of a fork. */
    private final class Body extends FiberBody {
        private Callable<?> work;

        Body(Callable<?> work) {
            this.work = work;
        }

        private Callable<?> takeWork() {
            Callable<?> w = work;
            work = null; // so that the objects it closes over can be collected while it runs
            return w;
        }

        @Override
        protected void execute() {
            try {
                fiber().check();
                value = takeWork().call();
            } catch (Throwable t) {
                error = t;
            }
        }

        @Override
        protected void ended() {
            scope.ended(Fork.this);
            if (error == null && fiber().cause() == null) {
                Fork.this.fiber = null;
            }
            release();
        }
    }

    @Override
    public String toString() {
        return "#<Fork " + site + ">";
    }
}
