package magnetar.kernel.report;

/**
 * Memory set aside so that an {@code OutOfMemoryError} can be reported. {@link Failures} releases a part of it before it reports such an error, and refills it
 * afterwards. If the report runs out of memory itself, a sentence that was prepared is printed.
 */
public final class Reserve {
    private static final int PARTS = 2; // several reports may come at a time, and processes that go on sending take what is given back
    private static final int PART = 1 << 19; // bytes, enough for a report
    private static final byte[] LAST_WORDS = "java.lang.OutOfMemoryError: memory has ended, and there is none left to say where.\n".getBytes();

    // Guarded by the class: what is given back, one after the other, when memory has ended.
    private static final byte[][] SET_ASIDE = new byte[PARTS][PART];

    // Set or read by any thread: what was the last to be known about who fills the memory.
    private static volatile byte[] known = {};

    private Reserve() {}

    /** True if the error says that memory has ended. */
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

    /** Gives back a part of what was set aside. Allocates nothing. */
    static synchronized void release() {
        for (int i = 0; i < PARTS; i++) {
            if (SET_ASIDE[i] != null) {
                SET_ASIDE[i] = null;
                return;
            }
        }
    }

    /** Sets memory aside again, if there is some. */
    static synchronized void refill() {
        try {
            for (int i = 0; i < PARTS; i++) {
                SET_ASIDE[i] = SET_ASIDE[i] == null ? new byte[PART] : SET_ASIDE[i];
            }
        } catch (OutOfMemoryError noRoom) {
            // The next time, perhaps.
        }
    }

    /** Remembers this sentence for when memory has ended and another one cannot be made. */
    public static void remember(String sentence) {
        known = (sentence + "\n").getBytes();
    }

    /** Says on standard error that memory has ended. Needs no memory, and does not throw. */
    static void sayLastWords() {
        try {
            byte[] last = known;
            System.err.write(LAST_WORDS, 0, LAST_WORDS.length);
            System.err.write(last, 0, last.length);
            System.err.flush();
        } catch (Throwable silent) {
            // There is nothing left to say it with.
        }
    }
}
