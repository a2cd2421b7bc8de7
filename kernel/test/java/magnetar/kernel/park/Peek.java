package magnetar.kernel.park;

/** Shows what only this room may see. */
public final class Peek {
    private Peek() {}

    /** Hands the target over from the current fiber, if it can be; see {@code HandOff.wake}. */
    public static boolean handOver(Thread target) {
        return HandOff.wake(target);
    }
}
