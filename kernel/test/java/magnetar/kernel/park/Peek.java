package magnetar.kernel.park;

/** Shows what only this room may see. */
public final class Peek {
    private Peek() {}

    /** Wakes the target from the current fiber, if it can; true if it was handed over; see {@code HandOff.wake}. */
    public static boolean handOver(Thread target) {
        return HandOff.wake(target, Fiber.current()) == HandOff.Way.HANDED_OVER;
    }

    /** True if tasks lie in the queue of a carrier that rests. */
    public static boolean isLeftBehind() {
        return Carriers.RESTING.stream().anyMatch(carrier -> carrier.getQueuedTaskCount() > 0 && Carriers.RESTING.contains(carrier));
    }

    /** True while one carrier works, and not for a trial. */
    public static boolean isSettledOnOne() {
        return Carriers.isSettledOnOne();
    }

    /** Changes the number of carriers; returns the former. */
    public static int setCarriers(int n) {
        return HandOff.pool().setParallelism(n);
    }

    /** True if the target is woken from the current fiber as any thread is that becomes runnable; see {@code HandOff.wake}. */
    public static boolean wakeOrdinarily(Thread target) {
        return HandOff.wake(target, Fiber.current()) == HandOff.Way.ORDINARY;
    }
}
