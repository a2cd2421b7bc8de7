package magnetar.kernel.sched;

import java.util.concurrent.locks.LockSupport;

/** Wakes threads by {@link LockSupport#unpark}, and starts each of them plainly. */
final class JdkScheduler implements Scheduler {
    // Set by each fiber that is resumed, cleared by the monitor.
    private volatile boolean hasResumed;

    // Only accessed by the monitor.
    private long lastResumption = System.nanoTime();

    @Override
    public void wake(Thread thread, Schedulable waker) {
        LockSupport.unpark(thread);
        SchedulerMonitor.remindOutside();
    }

    @Override
    public boolean startsUntracked() {
        return false;
    }

    @Override
    public boolean startUntracked(Thread thread) {
        return false;
    }

    @Override
    public boolean handsOver() {
        return false;
    }

    @Override
    public boolean mayBeStranded() {
        return true;
    }

    /** All, if no fiber was resumed for long, as far as the monitor has seen. */
    @Override
    public int computing(long now) {
        if (hasResumed) {
            hasResumed = false;
            lastResumption = now;
        }
        return now - lastResumption < SchedulerMonitor.PATIENCE_NANOS ? 0 : Integer.MAX_VALUE;
    }

    @Override
    public void resumed() {
        if (!hasResumed) {
            hasResumed = true;
        }
    }
}
