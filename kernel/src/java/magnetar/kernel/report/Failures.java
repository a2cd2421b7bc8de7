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
 * Reports a failure that no caller catches: once, to each hook.
 *
 * <p>While there is no hook it goes to the {@link UncaughtExceptionHandler} that the program has set, on the
 * thread or as the default. Otherwise it is printed on standard error, with the program's own frames first.
 * Cancellation and exit are not failures.
 */
public final class Failures {
    private static final int MOST_ERRORS = 32; // in a chain of causes
    private static final int LONGEST = 4000; // characters of one error
    private static final int MOST_FRAMES = 20; // of one error
    private static final int TRIES = 3;

    private static final List<Consumer<Failure>> DEFAULT = List.of(Failures::goDefaultWay);

    // Set or read by any thread.
    private static volatile Supplier<List<Consumer<Failure>>> hooks = List::of;

    // Set or read by any thread.
    private static volatile Function<Throwable, String> toText = Throwable::toString;

    // Set or read by any thread.
    private static volatile Runnable noMemory = () -> {};

    // Set or read by any thread. True for a failure that a simulation records.
    private static volatile BiPredicate<String, Throwable> keeper = (site, error) -> false;

    private Failures() {}

    /** An uncaught-exception handler of the kernel, which reports here; not one that the program has set. */
    public interface Handler extends UncaughtExceptionHandler {}

    /** Sets the test for failures that a simulation records, and that are not reported here. */
    public static void setKeeper(BiPredicate<String, Throwable> next) {
        keeper = next;
    }

    /**
     * A failure that was not caught, or a notice about a thread that continues.
     *
     * @param site the source line that started the work if known, else the name of the thread
     * @param thread the thread that it ran on
     * @param error what it threw; for a notice, an error that describes it
     * @param isNotice true if the thread continues
     */
    public record Failure(String site, Thread thread, Throwable error, boolean isNotice) {}

    /**
     * Sets the source of the hooks, in the order of their calls; an empty list stands for the default way.
     * Returns the former source.
     */
    public static synchronized Supplier<List<Consumer<Failure>>> setHooks(Supplier<List<Consumer<Failure>>> next) {
        Supplier<List<Consumer<Failure>>> before = hooks;
        hooks = next;
        return before;
    }

    /** Sets the function that prints what an error says, which may hold infinite data. */
    public static void setText(Function<Throwable, String> next) {
        toText = next;
    }

    /**
     * Sets what prints on standard error, after a report that memory has run out, what fills it. It allocates
     * nothing.
     */
    public static void setNoMemory(Runnable next) {
        noMemory = next;
    }

    /** Reports a failure of the thread. Does not throw: if the hook fails, that is reported too. */
    public static void report(Thread thread, Throwable error) {
        report(thread.getName(), thread, error);
    }

    /** Reports a failure of the work that was started at the site. */
    public static void report(String site, Thread thread, Throwable error) {
        if (error instanceof Unwinding || keeper.test(site, error)) {
            return;
        }
        deliver(site, thread, error, false);
    }

    /**
     * Reports a problem of a thread that continues. The error describes it, and its stack shows the place. It
     * takes the way of failures.
     */
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
        } catch (OutOfMemoryError | LinkageError noRoom) { // a class that was not loaded in time has none any more
            Reserve.writeLastReport();
        }
        if (full) {
            sayWhatFillsIt();
            Reserve.refill();
        }
    }

    // The JVM may find no room for objects of a compiled method, even where the method allocates nothing.
    static void sayWhatFillsIt() {
        for (int tries = 0; tries < TRIES; tries++) {
            try {
                noMemory.run();
                return;
            } catch (OutOfMemoryError noRoom) {
                Reserve.release();
            }
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

    /** The failure as text: the site, the error, the program's own frames, and the causes. */
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
            said = String.valueOf(toText.apply(t));
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
