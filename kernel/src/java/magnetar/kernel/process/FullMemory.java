package magnetar.kernel.process;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.report.Failures;

/**
 * Prints what fills the memory when it has run out: the longest mailboxes, and where most fibers were started.
 *
 * <p>Invariants:
 * <ol>
 *   <li>It allocates nothing, however many processes there are.
 *   <li>It prints at most once a second.
 *   <li>No virtual thread waits for another thread that prints, because it needs memory to go on after a wait.
 *       A platform thread waits for three seconds at most. The locks of the lists of fibers are the only ones
 *       taken.
 * </ol>
 */
public final class FullMemory {
    private static final int MOST_NAMED = 3;
    private static final int MANY = 1000; // fibers of one name
    private static final int ROOM = 4096; // characters of the text
    private static final int TRIES = 300;
    private static final long BETWEEN_TRIES_NANOS = 10_000_000;
    private static final long BETWEEN_NANOS = 1_000_000_000L;

    /** True while a thread composes or prints. */
    private static final AtomicBoolean BUSY = new AtomicBoolean();

    // Set or read by any thread: the last process that ran out of memory, and its number of messages. A race
    // may mix two of them.
    private static volatile Pid ended;
    private static volatile int endedWith;

    // Guarded by BUSY: the longest mailboxes, the longest first; and the names of fibers.
    private static final LocalProcess[] LONGEST = new LocalProcess[MOST_NAMED];
    private static final int[] LENGTHS = new int[MOST_NAMED];
    private static final HeavyHitters NAMES = new HeavyHitters();

    // Guarded by BUSY.
    private static final StringBuilder TEXT = new StringBuilder(ROOM);
    private static final byte[] BYTES = new byte[ROOM];
    private static long lastTold = System.nanoTime() - BETWEEN_NANOS;

    static {
        Failures.setNoMemory(FullMemory::print);
    }

    private FullMemory() {}

    /** Loads the class before memory runs out. */
    static void load() {}

    /** Called when this process has run out of memory, before its mailbox is dropped. Allocates nothing. */
    static void ended(Pid pid, int messages) {
        ended = pid;
        endedWith = messages;
    }

    /** Does all but print, so that its classes are loaded and its call sites linked while there is memory. */
    public static void prepare() {
        if (BUSY.compareAndSet(false, true)) {
            compose();
            recount();
            clear();
            BUSY.set(false);
        }
        new OpenMailbox().roughSize();
        new Pid(0, 0, "").appendTo(new StringBuilder());
    }

    private static void print() {
        if (!isFirst()) {
            return;
        }
        try {
            long now = System.nanoTime();
            if (now - lastTold >= BETWEEN_NANOS) {
                int length = compose();
                System.err.write(BYTES, 0, length);
                System.err.flush();
                lastTold = now;
            }
        } finally {
            BUSY.set(false);
        }
    }

    /**
     * False if another thread is printing the same. A platform thread gives that thread some time, because the
     * program may end when the platform thread does.
     */
    private static boolean isFirst() {
        int tries = Thread.currentThread().isVirtual() ? 1 : TRIES;
        for (int i = 1; !BUSY.compareAndSet(false, true); i++) {
            if (i == tries) {
                return false;
            }
            LockSupport.parkNanos(BETWEEN_TRIES_NANOS);
        }
        return true;
    }

    /** Writes the text to BYTES, and returns its length. */
    private static int compose() {
        clear();
        Fibers.each(FullMemory::inspect);
        Guests.each(FullMemory::measure);
        Passivated.each(FullMemory::measure);
        if (!NAMES.isExact()) {
            recount();
        }
        TEXT.setLength(0);
        try {
            appendDropped();
            appendLongest();
            appendMost();
        } catch (OutOfMemoryError noRoom) {
            // A name is longer than the room for it.
        }
        clear();
        int length = 0;
        for (; length < Math.min(TEXT.length(), ROOM); length++) {
            char c = TEXT.charAt(length);
            BYTES[length] = (byte) (c < 128 ? c : '?');
        }
        return length;
    }

    private static void clear() {
        for (int i = 0; i < MOST_NAMED; i++) {
            LONGEST[i] = null;
            LENGTHS[i] = 0;
        }
        NAMES.clear();
    }

    // --- the longest mailboxes

    private static void measure(LocalProcess process) {
        int length = process.mailbox().roughSize(); // under the lock of a list
        int place = MOST_NAMED;
        while (place > 0 && LENGTHS[place - 1] < length) {
            place--;
        }
        if (place < MOST_NAMED && !isNoted(process)) { // one that changes lists is met twice
            System.arraycopy(LONGEST, place, LONGEST, place + 1, MOST_NAMED - 1 - place);
            System.arraycopy(LENGTHS, place, LENGTHS, place + 1, MOST_NAMED - 1 - place);
            LONGEST[place] = process;
            LENGTHS[place] = length;
        }
    }

    private static boolean isNoted(LocalProcess process) {
        for (LocalProcess p : LONGEST) {
            if (p == process) {
                return true;
            }
        }
        return false;
    }

    private static void appendDropped() {
        Pid dropped = ended;
        ended = null;
        if (dropped != null && endedWith > 0) {
            appendMailbox(dropped, endedWith);
            TEXT.append(", which were dropped when memory ended in it.\n");
        }
    }

    private static void appendLongest() {
        for (int i = 0; i < MOST_NAMED && LENGTHS[i] > 0; i++) {
            appendMailbox(LONGEST[i].pid(), LENGTHS[i]);
            TEXT.append(".\n");
        }
    }

    private static void appendMailbox(Pid pid, int length) {
        pid.appendTo(TEXT.append("The mailbox of ")).append(" holds ").append(length).append(" messages");
    }

    // --- the fibers

    private static void inspect(Fiber fiber) {
        if (fiber.home() instanceof LocalProcess p) {
            measure(p);
        }
        Thread thread = fiber.get();
        if (thread != null) { // else it was collected
            NAMES.vote(thread.getName());
        }
    }

    private static void recount() {
        NAMES.startCounting();
        Fibers.each(FullMemory::count);
    }

    private static void count(Fiber fiber) {
        Thread thread = fiber.get();
        if (thread != null) {
            NAMES.count(thread.getName());
        }
    }

    private static void appendMost() {
        if (NAMES.count() >= MANY) {
            TEXT.append("Of ").append(NAMES.all()).append(" fibers that have not ended, ").append(NAMES.count()).append(" are \"")
                    .append(NAMES.name()).append("\".\n");
        }
    }
}
