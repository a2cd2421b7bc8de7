package magnetar.kernel.sched;

import java.util.concurrent.locks.LockSupport;

/** Wakes threads by {@link LockSupport#unpark}, and starts each of them plainly. */
final class JdkScheduler implements Scheduler {
    @Override
    public void wake(Thread thread, Schedulable target, Schedulable waker) {
        LockSupport.unpark(thread);
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
}
