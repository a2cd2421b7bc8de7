package magnetar.kernel.sched;

import java.util.concurrent.locks.LockSupport;

/** Wakes threads by {@link LockSupport#unpark}, and starts each of them plainly. */
final class JdkScheduler implements Scheduler {
    // Set by each fiber that is resumed, cleared by the monitor.
    private volatile boolean hasResumed;

    // Only accessed by the monitor.
    private long queued; // how many virtual threads wait for a carrier
    private long stoodFor; // how long no fiber was resumed, and the queues did not become shorter

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

    @Override
    public int submissions() {
        return 0;
    }

    /**
     * All that run something, unless fibers wait and others move on: while for 10 ms a fiber was resumed or the queues
     * became shorter, as far as the monitor has seen.
     */
    @Override
    public int computing(boolean waits, long elapsed) {
        long before = queued;
        queued = Carriers.queued();
        boolean moved = hasResumed || queued < before;
        hasResumed = false;
        stoodFor = moved || elapsed == 0 ? 0 : stoodFor + elapsed;
        return waits && stoodFor < SchedulerMonitor.PATIENCE_NANOS ? 0 : Carriers.mounted();
    }

    @Override
    public void resumed() {
        if (!hasResumed) {
            hasResumed = true;
        }
    }
}
