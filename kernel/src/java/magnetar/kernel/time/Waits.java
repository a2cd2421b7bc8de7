package magnetar.kernel.time;

import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.park.Latch;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;

/** Waits with a time limit. */
public final class Waits {
    private Waits() {}

    /** Parks at most so many nanoseconds until completed; true if completed. */
    public static boolean await(Environment environment, Parked waiter, long nanos) throws InterruptedException {
        return awaitUntil(environment, waiter, deadline(environment, nanos));
    }

    /** The instant so many nanoseconds from now. Reads the clock only if there is a limit. */
    public static long deadline(Environment environment, long nanos) {
        return nanos == Durations.INFINITE ? nanos : Durations.deadline(environment.nanoTime(), nanos);
    }

    /** True if the instant has passed. */
    public static boolean isOver(Environment environment, long deadline) {
        return deadline != Durations.INFINITE && left(environment, deadline) <= 0;
    }

    /** The nanoseconds until the instant. */
    public static long left(Environment environment, long deadline) {
        return deadline == Durations.INFINITE ? deadline : deadline - environment.nanoTime();
    }

    /** Parks until completed, or until this instant; true if completed. */
    public static boolean awaitUntil(Environment environment, Parked waiter, long deadline) throws InterruptedException {
        Expiry expiry = limit(environment, waiter, deadline);
        try {
            return waiter.await();
        } finally {
            lift(environment, expiry);
        }
    }

    /**
     * Starts the timer of a wait that is about to begin; null without a limit. {@link #lift} stops it after
     * the wait.
     */
    public static Expiry limit(Environment environment, Parked waiter, long deadline) {
        if (deadline == Durations.INFINITE) {
            return null;
        }
        Expiry expiry = new Expiry(waiter, deadline);
        Wheel.of(environment).add(expiry);
        return expiry;
    }

    /** Stops a timer that {@link #limit} started. */
    public static void lift(Environment environment, Expiry expiry) {
        if (expiry != null) {
            Wheel.of(environment).cancel(expiry);
        }
    }

    /** Waits at most so many nanoseconds for a latch; true if it is open. */
    public static boolean await(Latch latch, WaitReason reason, Object on, long nanos) throws InterruptedException {
        Fiber fiber = Fiber.current();
        fiber.enter();
        if (latch.isReleased() || nanos <= 0) {
            return latch.isReleased();
        }
        Parked waiter = new Parked(fiber, reason, on);
        boolean completed = false;
        try {
            completed = !latch.add(waiter) || await(fiber.environment(), waiter, nanos);
        } finally {
            if (!completed) {
                latch.remove(waiter);
            }
        }
        return completed;
    }

    /** Parks for so many nanoseconds, on the clock of the fiber's environment. */
    public static void sleep(long nanos) throws InterruptedException {
        Fiber fiber = Fiber.current();
        fiber.enter();
        if (nanos > 0) {
            await(fiber.environment(), new Parked(fiber, WaitReason.SLEEP, null), nanos);
        }
    }
}
