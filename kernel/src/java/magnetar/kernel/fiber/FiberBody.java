package magnetar.kernel.fiber;

import java.util.concurrent.ExecutorService;
import magnetar.kernel.report.Failures;
import magnetar.kernel.sched.Schedulers;

/**
 * The work of a fiber and its end: a failure is reported, the fiber leaves the list, its executor is shut
 * down.
 *
 * <p>Rejected: a wrapper of a {@code Runnable}, since each frame of a parked fiber costs a hundred bytes.
 */
public abstract class FiberBody implements Runnable {
    // Set by the starter, only accessed by the fiber once it runs.
    Fiber fiber;
    ExecutorService executor;

    /** For subclasses. */
    protected FiberBody() {}

    /** A body that runs the Runnable. */
    static FiberBody of(Runnable run) {
        return new FiberBody() {
            private Runnable left = run;

            @Override
            protected void execute() {
                Runnable r = left;
                left = null; // so that what the body closes over can be collected while it runs
                r.run();
            }
        };
    }

    /** The work. A Throwable that it throws is reported. */
    protected abstract void execute() throws Throwable;

    @Override
    public final void run() {
        Schedulers.chosen().resumed();
        try {
            fiber.begins();
            execute();
        } catch (Throwable t) {
            Failures.report(Thread.currentThread(), t);
        } finally {
            end();
        }
    }

    private void end() {
        Fibers.discard(fiber);
        if (executor != null) {
            executor.shutdown();
        }
        ended();
        fiber.clear(); // else the garbage collector queues each ended fiber, for all starters to poll
    }

    /** Called last, when the fiber has left the list. */
    protected void ended() {}

    /** The fiber that runs this. */
    protected final Fiber fiber() {
        return fiber;
    }
}
