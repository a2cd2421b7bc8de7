package magnetar.cluster.impl;

import java.util.logging.Level;
import java.util.logging.Logger;

/** Logs connections that were refused: one line each, and at most one line in a second. */
final class Refusals {
    private static final Logger logger = Logger.getLogger("magnetar.cluster");

    private static final long PAUSE = 1_000_000_000L;

    private long next = System.nanoTime();
    private long silent;

    /** Logs a sentence with the address and a remedy, or counts it if another one came less than a second ago. */
    synchronized void log(String sentence) {
        long now = System.nanoTime();
        if (now - next < 0) {
            silent++;
            return;
        }
        next = now + PAUSE;
        logger.log(Level.WARNING, "{0}", silent == 0 ? sentence : sentence + " (" + silent + " more like it)");
        silent = 0;
    }
}
