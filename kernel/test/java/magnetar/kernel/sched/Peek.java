package magnetar.kernel.sched;

/** Shows what only this package may see. */
public final class Peek {
    private Peek() {}

    /** Wakes the thread for the waker, which the current thread runs, if it can; true if it was handed over; see {@code HandOff.tryToWake}. */
    public static boolean handOver(Thread target, Schedulable waker) {
        return wake(target, waker) == HandOff.Way.HANDED_OVER;
    }

    /** True if the thread is woken as any is that becomes runnable; see {@code HandOff.tryToWake}. */
    public static boolean wakeOrdinarily(Thread target, Schedulable waker) {
        return wake(target, waker) == HandOff.Way.SIGNALLED;
    }

    private static HandOff.Way wake(Thread target, Schedulable waker) {
        return HandOff.tryToWake(target, waker, Thread.currentThread().isVirtual() ? waker : null);
    }
}
