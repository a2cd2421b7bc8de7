package magnetar.kernel.process;

import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.function.Consumer;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.fiber.World;
import magnetar.kernel.report.Failures;
import magnetar.kernel.report.Reserve;

/**
 * Warns of mailboxes that grow, before they fill the memory, and names the longest ones when memory has ended.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A mailbox is warned of when it comes to hold {@code magnetar.long-queue} messages, and at each doubling; again only after its owner has looked at it when
 *       it held no more than a tenth of that. So no process is warned of without an end, and none that recovers is warned of twice.
 *   <li>A message costs one comparison of a number that its sender has at hand. All else happens on a fiber of its own, so that neither a sender nor the timer
 *       thread runs what the program does with a warning.
 *   <li>In a simulation there are no warnings: they would change what it does.
 * </ol>
 *
 * <p>Source: {@code long_message_queue} of Erlang's system_monitor, with its two limits. Refused: a thread that looks at all mailboxes, which wakes programs that
 * do nothing, and comes too late where a mailbox fills the memory in a second.
 */
public final class LongQueues {
    private static final int MOST_NAMED = 3;
    private static final long BETWEEN_NANOS = 1_000_000_000L; // of two reports that memory has ended

    /** From how many messages on a mailbox is long; 0 or less: none is. */
    static final long LIMIT = limit();

    private static final long SHORT = LIMIT / 10;

    // Set or read by any thread; null: the log of the system.
    private static volatile Consumer<Warning> hook;

    // Set or read by any thread: the process that the memory ended in last, and how many messages it had. A race mixes two of them.
    private static volatile Pid ended;
    private static volatile int endedWith;

    // Set or read by any thread; a race costs a report more.
    private static volatile long lastTold = System.nanoTime() - BETWEEN_NANOS;

    static {
        Failures.setNoMemory(LongQueues::onNoMemory);
    }

    private LongQueues() {}

    /**
     * A long mailbox.
     *
     * @param pid whose it is
     * @param messages how many it held
     * @param sender the thread that has sent the last of them; null if that is not known
     * @param line the source line that sent it, or null
     * @param text all that as a sentence, with what to do
     */
    public record Warning(Pid pid, long messages, String sender, String line, String text) {}

    /** Sets where warnings go, or with null the default way again; returns what was before. */
    public static synchronized Consumer<Warning> setHook(Consumer<Warning> next) {
        Consumer<Warning> before = hook;
        hook = next;
        return before;
    }

    private static long limit() {
        long set = Long.getLong("magnetar.long-queue", 50_000);
        return set > 0 ? set : Long.MAX_VALUE;
    }

    /** Loads the class before memory ends. */
    static void load() {}

    // --- warnings ----------------------------------------------------------------------------------------------------

    /** The current thread has sent a message to a mailbox, which holds so many now: the limit or more. */
    static void grown(Mailbox mailbox, long messages) {
        grown(mailbox, messages, true);
    }

    /** The owner of a mailbox has found that it holds so many messages. */
    static void found(Mailbox mailbox, long messages) {
        grown(mailbox, messages, false);
    }

    private static void grown(Mailbox mailbox, long messages, boolean bySender) {
        if (World.current() != World.REAL || !rises(mailbox, messages)) {
            return;
        }
        try {
            String sender = bySender ? Thread.currentThread().getName() : null;
            String line = bySender ? Caller.line() : null;
            Fibers.start("monitor of mailboxes", Fibers.Hold.STRONG, new Growth(mailbox, messages, sender, line));
        } catch (OutOfMemoryError noRoom) {
            // The report that memory has ended names it.
        }
    }

    private static boolean rises(Mailbox mailbox, long messages) {
        if (messages < LIMIT << mailbox.warned) {
            return false;
        }
        synchronized (LongQueues.class) {
            int level = mailbox.warned;
            while (level < Byte.MAX_VALUE / 4 && messages >= LIMIT << level) {
                level++;
            }
            boolean rises = level > mailbox.warned;
            mailbox.warned = (byte) level;
            return rises;
        }
    }

    /** The owner has looked at its mailbox, which holds so many messages. */
    static void looked(Mailbox mailbox, int messages) {
        if (messages <= SHORT) {
            mailbox.warned = 0;
        }
    }

    /** Finds the process of the mailbox, and warns of it. */
    private record Growth(Mailbox mailbox, long messages, String sender, String line) implements Runnable {
        @Override
        public void run() {
            for (LocalProcess p : ProcessTable.all()) {
                if (p.mailbox() == mailbox) {
                    warnOf(p, messages, sender, line);
                    return;
                }
            }
        }
    }

    private static void warnOf(LocalProcess p, long messages, String sender, String line) {
        try {
            String text = sentence(p, messages, sender, line);
            Reserve.remember(text);
            longest(); // so that its classes are loaded when memory has ended
            warn(new Warning(p.pid(), messages, sender, line, text));
        } catch (OutOfMemoryError noRoom) {
            // Memory has ended before the warning: the report of that names the mailbox.
        }
    }

    private static String sentence(LocalProcess p, long messages, String sender, String line) {
        return "The mailbox of " + p.pid() + " holds " + messages + " messages" + (sender == null ? "" : "; the last one came from \"" + sender + "\"")
                + (line == null ? "" : " at " + line) + ". Its process receives more slowly than others send, or no clause of its receive takes them. Look at it with"
                + " magnetar.inspect/mailbox, or bound it with the option :mailbox of spawn-opt.";
    }

    private static void warn(Warning warning) {
        Consumer<Warning> h = hook;
        if (h != null) {
            h.accept(warning);
        } else {
            System.getLogger("magnetar").log(Level.WARNING, warning.text);
        }
    }

    // --- the end of memory -------------------------------------------------------------------------------------------

    /** The memory has ended in this process, whose mailbox is about to be dropped. Allocates nothing. */
    static void ended(Pid pid, int messages) {
        ended = pid;
        endedWith = messages;
    }

    private static String takeDropped() {
        Pid dropped = ended;
        ended = null;
        return dropped == null || endedWith == 0 ? ""
                : dropped + " with " + endedWith + " messages, which were dropped when memory ended in it";
    }

    /** Which mailboxes are the longest, as a sentence; empty if there is no message. */
    public static String longest() {
        return longest("");
    }

    private static String longest(String first) {
        StringBuilder text = new StringBuilder(first);
        List<LocalProcess> some = new ArrayList<>();
        for (LocalProcess p : ProcessTable.all()) {
            if (messages(p) > 0) {
                some.add(p);
            }
        }
        some.sort(Comparator.comparingInt(LongQueues::messages).reversed());
        for (LocalProcess p : some.subList(0, Math.min(MOST_NAMED, some.size()))) {
            int messages = messages(p); // it may have been emptied meanwhile
            if (messages > 0) {
                text.append(text.isEmpty() ? "" : "; ").append(p.pid()).append(" with ").append(messages).append(" messages");
            }
        }
        return text.isEmpty() ? "" : "The longest mailboxes are of " + text + ".";
    }

    private static int messages(LocalProcess p) {
        return p.mailbox().size();
    }

    /** What is said beside a report that memory has ended, at most once a second; null for nothing. */
    private static String onNoMemory() {
        long now = System.nanoTime();
        if (now - lastTold < BETWEEN_NANOS) {
            return null;
        }
        lastTold = now;
        return longest(takeDropped());
    }
}
