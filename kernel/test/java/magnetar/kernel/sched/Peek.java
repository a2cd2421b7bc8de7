package magnetar.kernel.sched;

/** Gives the checks access to members of this package. */
public final class Peek {
    private Peek() {}

    /**
     * Hands the thread over for the waker, which runs on the current thread; true if that was possible; see
     * {@code HandOff.tryToWake}.
     */
    public static boolean handOver(Thread target, Schedulable waker) {
        return wake(target, waker) == HandOff.Way.HANDED_OVER;
    }

    /** Wakes the thread as the JDK does; true if that was possible; see {@code HandOff.tryToWake}. */
    public static boolean wakeOrdinarily(Thread target, Schedulable waker) {
        return wake(target, waker) == HandOff.Way.SUBMITTED;
    }

    private static HandOff.Way wake(Thread target, Schedulable waker) {
        return HandOff.tryToWake(target, Thread.currentThread().isVirtual() ? waker : null);
    }
}
