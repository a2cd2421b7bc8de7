package magnetar.kernel.sched;

import java.util.function.IntSupplier;

/** What the ticker tells all fibers: how often one of them has waited too long for a carrier. */
public final class Delays {
    // Written by the ticker, read by each operation of each fiber.
    private static volatile int count;

    // Set once, when there are fibers.
    private static volatile IntSupplier fibers = () -> 0;

    private Delays() {}

    /** How many there were. A fiber that sees another number than before leaves its carrier once. */
    public static int count() {
        return count;
    }

    /** Makes each fiber leave its carrier once, at its next operation. Called by the ticker alone. */
    static void add() {
        count++;
    }

    /** Sets what counts the fibers. */
    public static void setFibers(IntSupplier counter) {
        fibers = counter;
    }

    /** How many fibers there are. */
    static int fibers() {
        return fibers.getAsInt();
    }
}
