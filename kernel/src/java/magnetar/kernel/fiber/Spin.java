package magnetar.kernel.fiber;

import java.util.concurrent.locks.LockSupport;

/**
 * Waits for another core to leave a section of a few instructions, or to finish with a field that both update
 * by CAS.
 *
 * <p>A thread that loses a contended CAS pauses for {@value #PAUSES} pause instructions, about a microsecond,
 * without reading the field ({@link #lost}). Each read would take the cache line from the core that works on
 * it. Left alone, that core does some tens of operations at the speed of an uncontended one.
 *
 * <p>Spinning is bounded. Every {@value #LIMIT} turns the thread yields, because the owner of the section may
 * have lost its core. Every {@value #YIELDS} yields it steps aside. A virtual thread that only yields runs
 * again before those that were made runnable from outside its carrier, and the owner may be one of them. So
 * the spinner needs no wake-up.
 */
public final class Spin {
    private static final int LIMIT = 128;
    private static final int YIELDS = 16;
    private static final int PAUSES = 32;
    private static final int AT_ONCE = 2;
    private static final int BACK_OFFS = 16;

    private Spin() {}

    /** Spends one turn and returns the count of turns for the next call. */
    public static int turn(int turns) {
        if (Simulated.hasLetOthersRun()) {
            return turns;
        }
        if (turns % LIMIT < LIMIT - 1) {
            Thread.onSpinWait();
            return turns + 1;
        }
        if (turns < LIMIT * YIELDS - 1) {
            Thread.yield();
            return turns + 1;
        }
        stepAside();
        return 0;
    }

    /**
     * Backs off from a lock, twice as long as {@link #lost}, after the given number of failed attempts.
     * Returns the number for the next call.
     */
    public static int backOff(int failures) {
        if (Simulated.hasLetOthersRun()) {
            return failures + 1;
        }
        if (failures < BACK_OFFS) {
            pause();
            pause();
            return failures + 1;
        }
        if (failures < BACK_OFFS + YIELDS) {
            Thread.yield();
            return failures + 1;
        }
        stepAside();
        return BACK_OFFS; // it has backed off for long enough
    }

    /**
     * True while a thread in {@link #backOff} may pause although the lock is free: some tens of microseconds
     * in all.
     */
    public static boolean mayStay(int failures) {
        return failures < BACK_OFFS;
    }

    /**
     * Backs off after a failed CAS. The first {@value #AT_ONCE} failures in a row retry at once: the
     * competing update has completed, and may have been the only one. Takes the number of failures in a row
     * and returns it for the next call. It never yields, so it is for fields that are not locks, where no
     * owner can keep a thread waiting.
     */
    public static int lost(int losses) {
        if (losses < AT_ONCE) {
            return losses + 1;
        }
        pause();
        return losses;
    }

    private static void pause() {
        for (int i = 0; i < PAUSES; i++) {
            Thread.onSpinWait();
        }
    }

    /**
     * Lets every runnable fiber run before this one continues, including those that a yield does not let
     * pass.
     */
    static void stepAside() {
        boolean interrupted = Thread.interrupted(); // an interrupted thread would not park
        LockSupport.parkNanos(1);
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
