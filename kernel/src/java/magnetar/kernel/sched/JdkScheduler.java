package magnetar.kernel.sched;

import java.util.concurrent.locks.LockSupport;

/** Wakes threads by {@link LockSupport#unpark}, and starts each of them plainly. */
final class JdkScheduler implements Scheduler {
    // Set by each fiber that is resumed, cleared by the monitor.
    private volatile boolean hasTurn;

    // Only accessed by the monitor.
    private long lastTurn = System.nanoTime();

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

    /** All, if no fiber has had a turn for long, as far as the monitor has looked. */
    @Override
    public int computing(long now) {
        if (hasTurn) {
            hasTurn = false;
            lastTurn = now;
        }
        return now - lastTurn < SchedulerMonitor.PATIENCE_NANOS ? 0 : Integer.MAX_VALUE;
    }

    @Override
    public void tookTurn() {
        if (!hasTurn) {
            hasTurn = true;
        }
    }
}
