package magnetar.kernel.sim;

import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;

/**
 * The fibers that another thread will make runnable: they wait for a monitor, and the JVM submits them when
 * it was left.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Only the carrier gives a fiber the task that another thread has submitted. So nothing changes while a
 *       fiber runs.
 *   <li>After {@link #awaitUnblocked} each fiber that was handed a monitor is runnable. So it becomes
 *       runnable at the same step in each run, however long the JVM's thread takes.
 * </ol>
 */
final class Stalled {
    private static final long LOOK_NANOS = 1_000_000;
    private static final int POLLS = 300;
    private static final long POLL_NANOS = 50_000;

    private final Queue<Submission> submitted = new ConcurrentLinkedQueue<>();

    // Only accessed on the carrier, or by the fiber that it runs.
    private final List<SimFiber> fibers = new ArrayList<>();
    private final List<SimFiber> runnable;
    private boolean looked;

    private record Submission(SimFiber fiber, Runnable task) {}

    Stalled(List<SimFiber> runnable) {
        this.runnable = runnable;
    }

    /** Called by any thread. */
    void submit(SimFiber fiber, Runnable task) {
        submitted.add(new Submission(fiber, task));
    }

    void add(SimFiber fiber) {
        fibers.add(fiber);
    }

    /** Forgets the fibers of a node that has crashed. */
    void removeGone() {
        fibers.removeIf(SimFiber::isGone);
    }

    /**
     * Handles a submission by a fiber of the simulation. True if it was caused by a request for the stack of
     * a fiber that was handed a monitor: then it is kept until {@link #awaitUnblocked}. It differs from run
     * to run whether the JVM's thread submits that fiber too, and when.
     */
    boolean takes(SimFiber fiber, Runnable task) {
        boolean isLookedAt = fibers.contains(fiber) && Monitors.isLookedAt();
        if (isLookedAt) {
            looked = true;
            submit(fiber, task);
        } else {
            fibers.remove(fiber);
        }
        return isLookedAt;
    }

    /** A fiber that another thread has just made runnable, or null. */
    SimFiber woken() {
        Submission s = submitted.peek();
        return s == null ? null : s.fiber;
    }

    /** If a monitor was left: waits until the JVM has submitted the fiber that waited for it. */
    void awaitUnblocked() {
        while (looked && Monitors.isUnblockerBusy() || fibers.stream().anyMatch(f -> Monitors.isComing(f.thread))) {
            LockSupport.parkNanos(this, POLL_NANOS);
            take(false);
        }
        looked = false;
        take(false); // a submission that came after the last check
    }

    /**
     * For a fiber that waits for a monitor which real threads use too: true if it was left soon, and then the
     * run is unaffected.
     */
    boolean comesSoon(SimFiber fiber) {
        for (int n = 0; n < POLLS && fiber.task == null; n++) {
            LockSupport.parkNanos(LOOK_NANOS);
            take(true);
        }
        return fiber.task != null;
    }

    private void take(boolean first) {
        for (Submission s = submitted.poll(); s != null; s = submitted.poll()) {
            fibers.remove(s.fiber);
            if (s.fiber.task == null && s.fiber.mayRun()) {
                runnable.add(first ? 0 : runnable.size(), s.fiber);
            }
            s.fiber.task = s.task;
        }
    }
}
