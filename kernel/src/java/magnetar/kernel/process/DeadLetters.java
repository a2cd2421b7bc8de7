package magnetar.kernel.process;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.PerEnvironment;

/**
 * Messages that reached no process. All are counted; the last ones are kept as text. A simulation has its
 * own.
 */
public final class DeadLetters {
    private static final int KEPT = 100;
    private static final int PER_SECOND = 10;
    private static final PerEnvironment<DeadLetters> LETTERS = PerEnvironment.of(DeadLetters::new);

    private final LongAdder count = new LongAdder();

    // Guarded by itself.
    private final ArrayDeque<Letter> last = new ArrayDeque<>();

    // Set or read by any thread. A race keeps one letter more or less.
    private volatile long second;
    private volatile int inSecond;

    private DeadLetters() {}

    /**
     * One dead letter.
     *
     * @param to the address that it was sent to
     * @param message the message as text, of bounded length
     * @param from the thread that sent it
     * @param line the source line that sent it, or null
     */
    public record Letter(String to, String message, String from, String line) {}

    /** Adds a message with the context values that it carried, or null if it was not sent. */
    static void add(Object to, Object message, Object context) {
        LETTERS.current().put(to, message);
        Traffic.loses(to, message, context);
    }

    private void put(Object to, Object message) {
        count.increment();
        if (mayKeep()) {
            tryToKeep(to, message);
        }
    }

    private void tryToKeep(Object to, Object message) {
        try {
            Letter letter = new Letter(to.toString(), Dialect.codec().text(message), Thread.currentThread().getName(), Caller.line());
            synchronized (last) {
                last.add(letter);
                if (last.size() > KEPT) {
                    last.poll();
                }
            }
        } catch (OutOfMemoryError noRoom) {
            // The letter is counted. Its sender must not die because a dropped message could not be recorded.
        }
    }

    /**
     * True for at most {@value #PER_SECOND} letters a second, because finding the source line walks the
     * stack.
     */
    private boolean mayKeep() {
        long now = Fiber.current().environment().nanoTime() / 1_000_000_000L;
        if (now != second) {
            second = now;
            inSecond = 0;
        }
        return inSecond++ < PER_SECOND;
    }

    /** How many dead letters there were. */
    public static long count() {
        return LETTERS.current().count.sum();
    }

    /** The last letters that were kept, the oldest first. */
    public static List<Letter> last() {
        ArrayDeque<Letter> last = LETTERS.current().last;
        synchronized (last) {
            return new ArrayList<>(last);
        }
    }
}
