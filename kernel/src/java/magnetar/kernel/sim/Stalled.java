package magnetar.kernel.sim;

import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;

/**
 * The fibers that another thread will make runnable: they wait for a monitor, and the JVM submits them when it was left.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Only the carrier gives a fiber the task that another thread has submitted, so nothing changes while a fiber runs.
 *   <li>After {@link #settle} each fiber that a monitor was left to is runnable. So it is runnable from the same step on in each run, however long
 *       the JVM's thread takes.
 * </ol>
 */
final class Stalled {
    private static final long LOOK_NANOS = 1_000_000;
    private static final int LOOKS = 300;
    private static final long SETTLE_NANOS = 50_000;

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

    /**
     * A submission by a fiber of the simulation: taken, until all have settled, if it came because somebody has asked for the stack of one that a
     * monitor was left to. Whether the JVM's thread has submitted it too, or will, or does not, differs from run to run.
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

    /** One that another thread has just made runnable, or null. */
    SimFiber woken() {
        Submission s = submitted.peek();
        return s == null ? null : s.fiber;
    }

    /** If somebody has left a monitor: waits until the JVM has submitted who waited for it. */
    void settle() {
        while (looked && Monitors.isUnblockerBusy() || fibers.stream().anyMatch(f -> Monitors.isComing(f.thread))) {
            LockSupport.parkNanos(this, SETTLE_NANOS);
            take(false);
        }
        looked = false;
        take(false); // one that came between the look and now
    }

    /** For one that waits for a monitor which real threads use as well: true if it was left, and then nothing has happened. */
    boolean comesSoon(SimFiber fiber) {
        for (int n = 0; n < LOOKS && fiber.task == null; n++) {
            LockSupport.parkNanos(LOOK_NANOS);
            take(true);
        }
        return fiber.task != null;
    }

    private void take(boolean first) {
        for (Submission s = submitted.poll(); s != null; s = submitted.poll()) {
            fibers.remove(s.fiber);
            if (s.fiber.task == null) {
                runnable.add(first ? 0 : runnable.size(), s.fiber);
            }
            s.fiber.task = s.task;
        }
    }
}
