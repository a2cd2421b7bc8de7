package magnetar.kernel.process;

import java.lang.System.Logger.Level;
import java.util.function.Consumer;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.report.Telemetry;
import magnetar.kernel.sched.Settings;

/**
 * Warns of growing mailboxes before they fill the memory. {@link FullMemory} names the longest mailboxes once
 * memory has run out.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A mailbox causes a warning when it reaches {@code magnetar.long-queue} messages, and at each
 *       doubling. The warnings start again only after its owner has seen it at a tenth of that or less. So
 *       the number of warnings is bounded, and a mailbox near the limit does not repeat them.
 *   <li>A message costs one comparison with a number that its sender has at hand. The rest runs on a fiber of
 *       its own, so that neither a sender nor the timer thread runs the program's handler of warnings.
 *   <li>A simulation makes no warnings, which would change its run.
 * </ol>
 *
 * <p>Source: {@code long_message_queue} of Erlang's system_monitor, with its two limits. Rejected: a thread
 * that checks all mailboxes. It wakes idle programs, and comes too late for a mailbox that fills the memory
 * in a second.
 */
public final class LongQueues {
    /** From this number of messages on a mailbox is long. 0 or less in the property turns the warnings off. */
    static final long LIMIT = limit();

    private static final long SHORT = LIMIT / 10;

    // Set or read by any thread. Null stands for the log of the system.
    private static volatile Consumer<Warning> hook;

    private LongQueues() {}

    /**
     * A long mailbox.
     *
     * @param pid the process of the mailbox
     * @param messages how many it held
     * @param sender the thread that sent the last of them; null if unknown
     * @param line the source line that sent it, or null
     * @param text a sentence that says all that, and what to do
     */
    public record Warning(Pid pid, long messages, String sender, String line, String text) {}

    /** Sets the handler of warnings, or with null restores the default. Returns the former one. */
    public static synchronized Consumer<Warning> setHook(Consumer<Warning> next) {
        Consumer<Warning> before = hook;
        hook = next;
        return before;
    }

    private static long limit() {
        long set = Settings.number("magnetar.long-queue", Long.MIN_VALUE, 50_000L);
        return set > 0 ? set : Long.MAX_VALUE;
    }

    /** Loads the class before memory runs out. */
    static void load() {}

    /**
     * Called when the current thread has sent a message to a mailbox, which now holds so many: the limit or
     * more.
     */
    static void grown(Mailbox mailbox, long messages) {
        grown(mailbox, messages, true);
    }

    /** Called when the owner of a mailbox has found that it holds so many messages. */
    static void found(Mailbox mailbox, long messages) {
        grown(mailbox, messages, false);
    }

    private static void grown(Mailbox mailbox, long messages, boolean bySender) {
        if (Environment.current() != Environment.REAL || !rises(mailbox, messages)) {
            return;
        }
        try {
            String sender = bySender ? Thread.currentThread().getName() : null;
            String line = bySender ? Caller.line() : null;
            Fibers.start("monitor of mailboxes", Fibers.Hold.STRONG, new Growth(mailbox, messages, sender, line));
        } catch (OutOfMemoryError noRoom) {
            // The report that memory has run out names the mailbox.
        }
    }

    private static boolean rises(Mailbox mailbox, long messages) {
        if (messages < LIMIT << mailbox.warningLevel) {
            return false;
        }
        synchronized (LongQueues.class) {
            int level = mailbox.warningLevel;
            while (level < Byte.MAX_VALUE / 4 && messages >= LIMIT << level) {
                level++;
            }
            boolean rises = level > mailbox.warningLevel;
            mailbox.warningLevel = (byte) level;
            return rises;
        }
    }

    /** Called when the owner has scanned its mailbox, which holds so many messages. */
    static void looked(Mailbox mailbox, int messages) {
        if (messages <= SHORT) {
            mailbox.warningLevel = 0;
        }
    }

    /** Finds the process of the mailbox, and warns. */
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
        if (Telemetry.isOn()) {
            Telemetry.mailboxGrew(p.pid(), messages);
        }
        try {
            String text = sentence(p, messages, sender, line);
            warn(new Warning(p.pid(), messages, sender, line, text));
        } catch (OutOfMemoryError noRoom) {
            // Memory ran out before the warning. The report of that names the mailbox.
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
}
