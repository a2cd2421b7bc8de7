package magnetar.kernel.park;

import magnetar.kernel.fiber.Fiber;

/**
 * A wait in code that parks by itself, such as a socket of the JDK. {@link Parked#waitOf} tells of it, too. It
 * allocates nothing after the first wait of a thread.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Between {@link #begin} and {@link #end} the thread waits for nothing in the kernel: it has one sign.
 *   <li>If other code that parks replaces the sign meanwhile, the wait is not told of. Nothing else is lost.
 * </ol>
 *
 * <p>Rejected: a table of the waits, since each read of a socket would write to it.
 */
public final class WaitElsewhere {
    private WaitElsewhere() {}

    /** Tells that the current thread may park from now on. Returns what {@link #end} wants. */
    public static Object begin(WaitReason reason, Object on) {
        Fiber fiber = Fiber.current();
        return WaitSign.begin(reason, on, fiber.environment().coarseNanos(), fiber.nextId());
    }

    /** Tells that it does not any more. */
    public static void end(Object begun) {
        ((WaitSign) begun).end();
    }
}
