package magnetar.kernel.report;

import java.util.concurrent.locks.LockSupport;

/**
 * What is done when memory has run out.
 *
 * <p>An instance is the default handler of uncaught exceptions, if the program has set none. It does what the
 * JVM does, except when memory has run out. Printing a stack needs memory, so the JVM would only say that its
 * handler has failed too. This handler reports the failure, for which {@link Reserve} has memory.
 */
public final class NoMemory implements Failures.Handler {
    private static final int TOLD_AT = 4; // waits
    private static final long FIRST_NANOS = 1_000_000;
    private static final int MOST_DOUBLINGS = 10;
    private static final long FIRST_SILENCE_NANOS = 1_000_000_000;

    // Set or read by any thread, in a race: when it was told last, and how often.
    private static volatile long toldAt = System.nanoTime() - FIRST_SILENCE_NANOS;
    private static volatile int told;

    private NoMemory() {}

    /** Makes it the default handler, unless the program has set one, and reserves memory for its reports. */
    public static void install() {
        Reserve.refill();
        if (Thread.getDefaultUncaughtExceptionHandler() == null) {
            Thread.setDefaultUncaughtExceptionHandler(new NoMemory());
        }
    }

    @Override
    public void uncaughtException(Thread t, Throwable e) {
        if (Reserve.isNeeded(e)) {
            Failures.report(t, e);
        } else {
            System.err.print("Exception in thread \"" + t.getName() + "\" ");
            e.printStackTrace(System.err);
        }
    }

    /**
     * Called when a step of the kernel that must be done found no memory. Releases a part of the reserve, and tells
     * on standard error that memory has run out, and what fills it, unless that was told a short while ago.
     * Allocates nothing, and does not throw.
     */
    public static void tell() {
        Reserve.release();
        long now = System.nanoTime();
        if (now - toldAt >= FIRST_SILENCE_NANOS << Math.min(told, MOST_DOUBLINGS)) { // a race may tell it twice
            toldAt = now;
            told++;
            Reserve.writeLastReport();
            Failures.sayWhatFillsIt();
        }
    }

    /**
     * Waits for memory, because a step that must be done found none, also after so many waits before. The next try may
     * use the reserve. Each wait is longer than the one before, up to a second, because each try may make the JVM
     * collect all of the heap. After some waits it {@link #tell tells} of it. Allocates nothing, and does not throw.
     */
    public static void await(int waits) {
        if (waits < TOLD_AT) {
            Reserve.release();
        } else {
            tell();
        }
        await(FIRST_NANOS << Math.min(waits, MOST_DOUBLINGS), Thread.currentThread().isVirtual());
    }

    /** Called when a step that must be done has been done. If it has waited, the reserve is filled again. */
    public static void awaited(boolean waited) {
        if (waited) {
            Reserve.refill();
        }
    }

    /** A virtual thread does not park, because a timed park needs memory itself, and to give way may too. */
    private static void await(long nanos, boolean yields) {
        long start = System.nanoTime();
        for (long left = nanos; left > 0; left = nanos - (System.nanoTime() - start)) {
            try {
                if (yields) {
                    Thread.yield();
                } else if (Thread.currentThread().isVirtual()) {
                    Thread.onSpinWait();
                } else {
                    LockSupport.parkNanos(left);
                }
            } catch (OutOfMemoryError noRoom) {
                yields = false;
            }
        }
    }
}
