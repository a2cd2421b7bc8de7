package magnetar.kernel.report;

/**
 * Memory reserved for the time when there is no other. A part is released before an {@code OutOfMemoryError}
 * is reported ({@link Failures}), when a process dies of one, and when a step that must be done found no
 * memory ({@link NoMemory}). The same code refills the reserve when that is done. If the
 * report itself runs out of memory, a sentence that was prepared is printed.
 */
public final class Reserve {
    private static final int PARTS = 2; // several reports may come at once, and processes take what is freed
    private static final int PART = 1 << 19; // bytes, enough for a report
    private static final int PROBE = 1 << 22; // bytes
    private static final byte[] LAST_REPORT = "java.lang.OutOfMemoryError: memory has ended, and there is none left to say where.\n".getBytes();

    // Guarded by the class: released part by part when memory has run out.
    private static final byte[][] SET_ASIDE = new byte[PARTS][PART];

    // Set by refill. A field, so that the compiler cannot drop the allocation.
    private static volatile byte[] probe;

    private Reserve() {}

    /** True if the error or one of its causes is an OutOfMemoryError. */
    static boolean isNeeded(Throwable error) {
        Throwable t = error;
        for (int depth = 0; t != null && depth < 16; depth++) {
            if (t instanceof OutOfMemoryError) {
                return true;
            }
            t = t.getCause();
        }
        return false;
    }

    /** True if no part is released. */
    static synchronized boolean isWhole() {
        boolean whole = true;
        for (byte[] part : SET_ASIDE) {
            whole &= part != null;
        }
        return whole;
    }

    /** Releases one part of the reserve. Allocates nothing. */
    public static synchronized void release() {
        for (int i = 0; i < PARTS; i++) {
            if (SET_ASIDE[i] != null) {
                SET_ASIDE[i] = null;
                return;
            }
        }
    }

    /** Reserves memory again, if much more than that is free: what is left is for the program, which may end. */
    public static synchronized void refill() {
        try {
            probe = new byte[PROBE];
            probe = null;
            for (int i = 0; i < PARTS; i++) {
                SET_ASIDE[i] = SET_ASIDE[i] == null ? new byte[PART] : SET_ASIDE[i];
            }
        } catch (OutOfMemoryError noRoom) {
            // A later refill may find some.
        }
    }

    /** Prints on standard error that memory has run out. Needs no memory, and does not throw. */
    static void writeLastReport() {
        try {
            System.err.write(LAST_REPORT, 0, LAST_REPORT.length);
            System.err.flush();
        } catch (Throwable silent) {
            // No way is left to print it.
        }
    }
}
