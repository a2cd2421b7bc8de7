package magnetar.kernel.fiber;

import java.util.concurrent.locks.LockSupport;

/**
 * Waiting for another core to leave a section of a few instructions, or to be done with a word that both want.
 *
 * <p>Whoever loses a word that is wanted again and again stays away from it for {@value #PAUSES} pauses of the processor, about a microsecond,
 * and does not look at it meanwhile ({@link #lost}): each look takes the word, and what lies beside it, from the core that works there. Left
 * alone, that core does some tens of operations as fast as one that has no rival.
 *
 * <p>Spinning is bounded: every {@value #LIMIT} turns the thread yields, because the owner of the section may have lost its
 * core, and every {@value #YIELDS} yields it steps aside: a virtual thread that only yields comes back before those that were
 * made runnable from outside its carrier, and one of these may be the owner. Nothing has to wake the spinner.
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

    /** Stays away, twice as long as {@link #lost}, after so many failures to take a lock, the last one now; returns the count of failures for the next call. */
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
        return BACK_OFFS; // it has stayed away for long enough
    }

    /** True while whoever {@link #backOff backs off} may stay away although nothing would be in the way: some tens of microseconds in all. */
    public static boolean mayStay(int failures) {
        return failures < BACK_OFFS;
    }

    /**
     * Stays away from a word that was just lost to another thread, but not for the first {@value #AT_ONCE} losses in a row: that rival is gone, and may have been the only one.
     * Takes the count of losses in a row, and returns it for the next call. For those that no owner can keep waiting: it does not yield.
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

    /** Lets every runnable fiber run before this one goes on, those too that a yield does not let pass. */
    static void stepAside() {
        boolean interrupted = Thread.interrupted(); // an interrupted thread would not park
        LockSupport.parkNanos(1);
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
