package magnetar.kernel.sched;

import java.util.function.IntSupplier;

/**
 * How the ticker asks all fibers to leave their carriers: it counts how often a fiber has waited too long for
 * one.
 */
public final class Delays {
    // Written by the ticker, read by each operation of each fiber.
    private static volatile int count;

    // Set when the class Fibers is initialized.
    private static volatile IntSupplier fibers = () -> 0;

    private Delays() {}

    /** The count. A fiber that sees it changed leaves its carrier once. */
    public static int count() {
        return count;
    }

    /** Makes each fiber leave its carrier once, at its next operation. Called by the ticker alone. */
    static void add() {
        count++;
    }

    /** Sets the function that counts the fibers. */
    public static void setFibers(IntSupplier counter) {
        fibers = counter;
    }

    /** How many fibers there are. */
    static int fibers() {
        return fibers.getAsInt();
    }
}
