package magnetar.kernel.park;

import java.util.concurrent.locks.LockSupport;

/**
 * Waiting for another core to leave a section of a few instructions.
 *
 * <p>Spinning is bounded: every {@value #LIMIT} turns the thread yields, because the owner of the section may have lost its
 * core, and every {@value #YIELDS} yields it steps aside: a virtual thread that only yields comes back before those that were
 * made runnable from outside its carrier, and one of these may be the owner. Nothing has to wake the spinner.
 */
public final class Spin {
    private static final int LIMIT = 128;
    private static final int YIELDS = 16;

    private Spin() {}

    /** Spends one turn and returns the count of turns for the next call. */
    public static int turn(int turns) {
        if (World.hasLetOthersRun()) {
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

    /** Lets every runnable fiber run before this one goes on, those too that a yield does not let pass. */
    static void stepAside() {
        boolean interrupted = Thread.interrupted(); // an interrupted thread would not park
        LockSupport.parkNanos(1);
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
