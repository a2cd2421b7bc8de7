package magnetar.kernel.process;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import magnetar.kernel.park.World;

/** Messages that nobody got: counted all, the last ones kept as text. */
public final class DeadLetters {
    private static final int KEPT = 100;
    private static final int PER_SECOND = 10;
    private static final LongAdder COUNT = new LongAdder();

    // Guarded by itself.
    private static final ArrayDeque<Letter> LAST = new ArrayDeque<>();

    // Set or read by any thread; a race costs or gives one letter.
    private static volatile long second;
    private static volatile int inSecond;

    private DeadLetters() {}

    /**
     * One of them.
     *
     * @param to whom it was sent to
     * @param message the message as text, of bounded length
     * @param from the thread that sent it
     * @param line the source line that sent it, or null
     */
    public record Letter(String to, String message, String from, String line) {}

    static void add(Object to, Object message) {
        COUNT.increment();
        if (mayKeep()) {
            Letter letter = new Letter(to.toString(), Words.language().text(message), Thread.currentThread().getName(), Caller.line());
            synchronized (LAST) {
                LAST.add(letter);
                if (LAST.size() > KEPT) {
                    LAST.poll();
                }
            }
        }
    }

    /** At most so many a second are kept: finding the line costs a walk of the stack. */
    private static boolean mayKeep() {
        long now = World.REAL.nanoTime() / 1_000_000_000L;
        if (now != second) {
            second = now;
            inSecond = 0;
        }
        return inSecond++ < PER_SECOND;
    }

    /** How many there were. */
    public static long count() {
        return COUNT.sum();
    }

    /** The last ones that were kept, the oldest first. */
    public static List<Letter> last() {
        synchronized (LAST) {
            return new ArrayList<>(LAST);
        }
    }
}
