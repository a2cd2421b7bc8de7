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
 *   <li>A virtual thread does not wait for another thread that writes this report, because it needs memory to
 *       go on after a wait. A daemon thread does not wait either, because it may be the timer thread. Another
 *       platform thread waits for three seconds at most, because the program may end when that thread does.
 *   <li>It locks {@code System.err} and, one at a time, the lists of fibers, guests and passivated processes.
 *       These locks are exceptions to the rule before: the thread that writes this report waits for them, even
 *       if it is virtual. A list is locked for a moment only, but {@code System.err} for as long as another
 *       thread prints.
 * </ol>
 */
public final class FullMemory {
    private static final int MOST_NAMED = 3;
    private static final int MANY = 1000; // fibers of one name
    private static final int ROOM = 4096; // characters of the text
    private static final int TRIES = 300;
    private static final long BETWEEN_TRIES_NANOS = 10_000_000;
    private static final long BETWEEN_NANOS = 1_000_000_000L;
    private static final String HELD = ".\n";
    private static final String DROPPED = ", which were dropped when memory ended in it.\n";

    /** True while a thread composes or prints. */
    private static final AtomicBoolean BUSY = new AtomicBoolean();

    // Set or read by any thread: the last process that ran out of memory, and its number of messages. In a
    // race the number may belong to another process.
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
        // The first character that is not Latin-1 replaces the array in TEXT by one of two bytes for each. A
        // name may have such characters, so this is done while there is memory.
        TEXT.append('\u0416').setLength(0);
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

    /**
     * Does all but print, so that its classes are loaded, its call sites linked and its string literals made
     * while there is memory.
     */
    public static void prepare() {
        if (BUSY.compareAndSet(false, true)) {
            try {
                compose();
                recount();
                clear();
                Pid none = new Pid(0, 0, "");
                appendMailbox(none, 0, DROPPED);
                appendMailbox(none, 0, HELD);
                appendName();
            } finally {
                BUSY.set(false);
            }
        }
        new OpenMailbox().roughSize();
    }

    private static void print() {
        print(System.nanoTime());
    }

    /** Prints, unless that was done less than a second before {@code now}. */
    static void print(long now) {
        if (!isFirst()) {
            return;
        }
        try {
            if (now - lastTold >= BETWEEN_NANOS) {
                int length = compose();
                System.err.write(BYTES, 0, length);
                System.err.flush();
                lastTold = now;
            }
        } finally {
            BUSY.set(false);
        }
        // Told now, or too soon after the last report: a later one must not tell it. A thread that set it and
        // then found BUSY true has set it before this write.
        ended = null;
    }

    /** False if another thread is printing the same and this one does not wait, or has waited in vain. */
    private static boolean isFirst() {
        int tries = Thread.currentThread().isDaemon() ? 1 : TRIES; // each virtual thread is a daemon
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
        if (dropped != null && endedWith > 0) {
            appendMailbox(dropped, endedWith, DROPPED);
        }
    }

    private static void appendLongest() {
        for (int i = 0; i < MOST_NAMED && LENGTHS[i] > 0; i++) {
            appendMailbox(LONGEST[i].pid(), LENGTHS[i], HELD);
        }
    }

    private static void appendMailbox(Pid pid, int length, String rest) {
        pid.appendTo(TEXT.append("The mailbox of ")).append(" holds ").append(length).append(" messages").append(rest);
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
            appendName();
        }
    }

    private static void appendName() {
        TEXT.append("Of ").append(NAMES.all()).append(" fibers that have not ended, ").append(NAMES.count()).append(" are \"")
                .append(NAMES.name()).append("\".\n");
    }
}
