package magnetar.erlang.wire;

import java.util.logging.Level;
import java.util.logging.Logger;

/** Logs connections that were refused or given up: one line each, and at most {@value #MOST} lines in a second. */
final class Log {
    private static final Logger LOGGER = Logger.getLogger("magnetar.erlang");

    private static final int MOST = 10;
    private static final long SECOND = 1_000_000_000L;

    // Guarded by its lock.
    private long begin = System.nanoTime();
    private int lines; // since then
    private long silent;

    /** Logs a sentence, or counts it if many came before in the same second. */
    synchronized void warn(String sentence) {
        long now = System.nanoTime();
        if (now - begin >= SECOND) {
            begin = now;
            lines = 0;
        }
        if (lines == MOST) {
            silent++;
            return;
        }
        lines++;
        LOGGER.log(Level.WARNING, "{0}", silent == 0 ? sentence : sentence + " (" + silent + " more lines were left out)");
        silent = 0;
    }
}
