package magnetar.kernel.report;

import java.lang.Thread.UncaughtExceptionHandler;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import java.util.function.BiPredicate;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * Where a failure goes that no caller is there to catch: to each hook, once.
 *
 * <p>While there is no hook it goes to the thread's own or the default {@link UncaughtExceptionHandler}, if the program has set one,
 * else to standard error, with the user's own frames first. Cancellation and exit are no failures.
 */
public final class Failures {
    private static final int MOST_ERRORS = 32; // of a chain of causes
    private static final int LONGEST = 4000; // characters of one of them
    private static final int MOST_FRAMES = 20; // of one of them

    private static final List<Consumer<Failure>> DEFAULT = List.of(Failures::goDefaultWay);

    // Set or read by any thread.
    private static volatile Supplier<List<Consumer<Failure>>> hooks = List::of;

    // Set or read by any thread.
    private static volatile Function<Throwable, String> words = Throwable::toString;

    // Set or read by any thread.
    private static volatile Supplier<String> noMemory = () -> null;

    // Set or read by any thread; true of a failure that somebody else keeps.
    private static volatile BiPredicate<String, Throwable> keeper = (site, error) -> false;

    private Failures() {}

    /** A thread's handler of uncaught exceptions that reports them here: not one that the program has set. */
    public interface Handler extends UncaughtExceptionHandler {}

    /** Sets who keeps failures of a site, so that nobody else need be told: a simulation. */
    public static void setKeeper(BiPredicate<String, Throwable> next) {
        keeper = next;
    }

    /**
     * A failure that nobody caught, or what was noticed of a thread that goes on.
     *
     * @param site who failed: the source line that started it where that is known, else the name of the thread
     * @param thread where it ran
     * @param error what it threw, or for a notice what says it
     * @param isNotice true if the thread goes on
     */
    public record Failure(String site, Thread thread, Throwable error, boolean isNotice) {}

    /** Sets what gives the hooks, in the order of their calls: none for the default way. Returns what gave them before. */
    public static synchronized Supplier<List<Consumer<Failure>>> setHooks(Supplier<List<Consumer<Failure>>> next) {
        Supplier<List<Consumer<Failure>>> before = hooks;
        hooks = next;
        return before;
    }

    /** Sets how a report writes what an error says, which may hold data without an end. */
    public static void setWords(Function<Throwable, String> next) {
        words = next;
    }

    /** Sets what is said on standard error after a report that memory has ended: what fills it, or null for nothing. */
    public static void setNoMemory(Supplier<String> next) {
        noMemory = next;
    }

    /** Reports a failure of the thread. Does not throw: a hook that fails is reported with what it failed on. */
    public static void report(Thread thread, Throwable error) {
        report(thread.getName(), thread, error);
    }

    /** Reports a failure of what was started at the site. */
    public static void report(String site, Thread thread, Throwable error) {
        if (error instanceof Unwinding || keeper.test(site, error)) {
            return;
        }
        deliver(site, thread, error, false);
    }

    /** Reports what is wrong with a thread that goes on: the error says what, and its stack where. It goes where failures go. */
    public static void notice(String site, Thread thread, Throwable error) {
        if (!keeper.test(site, error)) {
            deliver(site, thread, error, true);
        }
    }

    private static void deliver(String site, Thread thread, Throwable error, boolean isNotice) {
        boolean full = Reserve.isNeeded(error);
        if (full) {
            Reserve.release();
        }
        try {
            tell(new Failure(site, thread, error, isNotice));
            if (full) {
                sayWhatFillsIt();
            }
        } catch (OutOfMemoryError noRoom) {
            Reserve.sayLastWords();
        }
        if (full) {
            Reserve.refill();
        }
    }

    private static void tell(Failure failure) {
        boolean taken = true;
        for (Consumer<Failure> hook : hooksNow()) {
            taken &= hand(failure, hook);
        }
        if (!taken) {
            print(describe(failure));
        }
    }

    // The list is made here, perhaps where neither heap nor stack has room for it.
    private static List<Consumer<Failure>> hooksNow() {
        try {
            List<Consumer<Failure>> now = hooks.get();
            return now.isEmpty() ? DEFAULT : now;
        } catch (VirtualMachineError noRoom) {
            return DEFAULT;
        }
    }

    // A hook that fails is reported, and stops no other one.
    private static boolean hand(Failure failure, Consumer<Failure> hook) {
        try {
            hook.accept(failure);
            return true;
        } catch (Throwable inHook) {
            if (inHook != failure.error) {
                print(describe(failure.site + ", in a hook of failures", inHook));
            }
            return false;
        }
    }

    private static void sayWhatFillsIt() {
        String said = noMemory.get();
        if (said != null && !said.isEmpty()) {
            System.err.println(said);
        }
    }

    private static void goDefaultWay(Failure failure) {
        UncaughtExceptionHandler set = handlerOf(failure.thread);
        if (set != null) {
            set.uncaughtException(failure.thread, failure.error);
        } else {
            print(describe(failure));
        }
    }

    private static UncaughtExceptionHandler handlerOf(Thread thread) {
        UncaughtExceptionHandler own = thread.getUncaughtExceptionHandler();
        boolean chosen = own != null && !(own instanceof Handler) && !(own instanceof ThreadGroup);
        UncaughtExceptionHandler any = chosen ? own : Thread.getDefaultUncaughtExceptionHandler();
        return any instanceof Handler ? null : any;
    }

    private static void print(String text) {
        System.err.println(text);
    }

    private static String describe(Failure failure) {
        if (!failure.isNotice) {
            return describe(failure.site, failure.error);
        }
        StringBuilder text = new StringBuilder("Warning: ").append(failure.error.getMessage());
        appendFrames(text, failure.error.getStackTrace());
        return text.toString();
    }

    /** The failure as text: who failed, of what, the user's own frames, and the causes below. */
    public static String describe(String site, Throwable failure) {
        StringBuilder text = new StringBuilder("Uncaught in ").append(site.isEmpty() ? "an unnamed thread" : site);
        append(text, ": ", failure, Collections.newSetFromMap(new IdentityHashMap<>()));
        return text.toString();
    }

    private static void append(StringBuilder text, String before, Throwable t, Set<Throwable> seen) {
        if (t == null || seen.size() == MOST_ERRORS || !seen.add(t)) {
            return;
        }
        text.append(before).append(say(t));
        appendFrames(text, t.getStackTrace());
        for (Throwable s : t.getSuppressed()) {
            append(text, "\nSuppressed: ", s, seen);
        }
        append(text, "\nCaused by: ", t.getCause(), seen);
    }

    private static String say(Throwable t) {
        String said;
        try {
            said = String.valueOf(words.apply(t));
        } catch (Throwable e) {
            said = t.getClass().getName() + " (it does not print: " + e.getClass().getName() + ")";
        }
        return said.length() <= LONGEST ? said : said.substring(0, LONGEST) + "...";
    }

    private static void appendFrames(StringBuilder text, StackTraceElement[] frames) {
        for (String line : Frames.ofProgram(frames, MOST_FRAMES)) {
            text.append("\n    ").append(line.startsWith("(") ? "" : "at ").append(line);
        }
        int others = 0;
        for (StackTraceElement f : frames) {
            others += Frames.isOfProgram(f.getClassName()) ? 0 : 1;
        }
        if (others > 0) {
            text.append("\n    (and ").append(others).append(others == 1 ? " frame" : " frames").append(" of Clojure, Magnetar and the JDK)");
        }
    }
}
