package magnetar.kernel.report;

import java.lang.Thread.UncaughtExceptionHandler;

/**
 * What a thread does with an error that nobody catches, where the program has set no handler: the same as the JVM, except when memory has ended. The JVM prints the
 * stack then, which needs memory, and so says only that its handler has failed too. This one gives back what it has set aside, and names the longest mailboxes.
 */
public final class NoMemory implements UncaughtExceptionHandler {
    private static final int RESERVES = 2; // several reports may come at a time, and those who send on take what is given back
    private static final int RESERVE = 1 << 19; // bytes, enough for a report
    private static final byte[] LAST_WORDS = "java.lang.OutOfMemoryError: memory has ended, and there is none left to say where.\n".getBytes();

    // Guarded by the class: what is given back, one after the other, when memory has ended.
    private static final byte[][] SET_ASIDE = new byte[RESERVES][RESERVE];

    // Set or read by any thread: what was the last to be known about who fills the memory.
    private static volatile byte[] known = {};

    private NoMemory() {}

    /** Makes it the default handler, unless the program has set one. */
    public static void install() {
        if (Thread.getDefaultUncaughtExceptionHandler() == null) {
            Thread.setDefaultUncaughtExceptionHandler(new NoMemory());
        }
    }

    /** True if the error says that memory has ended. */
    static boolean isBehind(Throwable error) {
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
    static synchronized void giveReserve() {
        for (int i = 0; i < RESERVES; i++) {
            if (SET_ASIDE[i] != null) {
                SET_ASIDE[i] = null;
                return;
            }
        }
    }

    /** Sets memory aside again, if there is some. */
    static synchronized void takeReserve() {
        try {
            for (int i = 0; i < RESERVES; i++) {
                SET_ASIDE[i] = SET_ASIDE[i] == null ? new byte[RESERVE] : SET_ASIDE[i];
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

    @Override
    public void uncaughtException(Thread t, Throwable e) {
        if (isBehind(e)) {
            Failures.report(t, e);
        } else {
            System.err.print("Exception in thread \"" + t.getName() + "\" ");
            e.printStackTrace(System.err);
        }
    }
}
