package magnetar.kernel.park;

/** Shows what only this room may see. */
public final class Peek {
    private Peek() {}

    /** Wakes the target from the current fiber, if it can; true if it was handed over; see {@code HandOff.wake}. */
    public static boolean handOver(Thread target) {
        return HandOff.wake(target, Fiber.current()) == HandOff.Way.HANDED_OVER;
    }

    /** True if the target is woken from the current fiber as any thread is that becomes runnable; see {@code HandOff.wake}. */
    public static boolean wakeOrdinarily(Thread target) {
        return HandOff.wake(target, Fiber.current()) == HandOff.Way.ORDINARY;
    }
}
