package magnetar.kernel.park;

/**
 * Waiting for another core to leave a section of a few instructions.
 *
 * <p>Spinning is bounded: after {@value #LIMIT} turns the thread yields, because the owner of the section may have lost
 * its core. Nothing here parks, so nothing has to wake the spinner.
 */
public final class Spin {
    private static final int LIMIT = 128;

    private Spin() {}

    /** Spends one turn and returns the count of turns for the next call. */
    public static int turn(int turns) {
        if (turns < LIMIT) {
            Thread.onSpinWait();
            return turns + 1;
        }
        Thread.yield();
        return 0;
    }
}
