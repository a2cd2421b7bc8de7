package magnetar.kernel.park;

import java.lang.Thread.UncaughtExceptionHandler;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiConsumer;

/**
 * Where a failure goes that no caller is there to catch: to one hook, once.
 *
 * <p>Without a hook it goes to the thread's own or the default {@link UncaughtExceptionHandler}, if the program has set one,
 * else to standard error, with the user's own frames first. Cancellation and exit are no failures.
 */
public final class Failures {
    // Set or read by any thread; null: the default way.
    private static volatile BiConsumer<Thread, Throwable> hook;

    private Failures() {}

    /** Sets the hook, or with null the default way again; returns the hook before. */
    public static synchronized BiConsumer<Thread, Throwable> setHook(BiConsumer<Thread, Throwable> next) {
        BiConsumer<Thread, Throwable> before = hook;
        hook = next;
        return before;
    }

    /** Reports a failure of the thread. Does not throw: a hook that fails is reported with what it failed on. */
    public static void report(Thread thread, Throwable failure) {
        if (failure instanceof Cancelled || failure instanceof Exit) {
            return;
        }
        try {
            hand(thread, failure);
        } catch (Throwable inHook) {
            inHook.addSuppressed(failure);
            print(thread, inHook);
        }
    }

    private static void hand(Thread thread, Throwable failure) {
        BiConsumer<Thread, Throwable> h = hook;
        if (h != null) {
            h.accept(thread, failure);
            return;
        }
        UncaughtExceptionHandler set = handlerOf(thread);
        if (set != null) {
            set.uncaughtException(thread, failure);
        } else {
            print(thread, failure);
        }
    }

    private static UncaughtExceptionHandler handlerOf(Thread thread) {
        UncaughtExceptionHandler own = thread.getUncaughtExceptionHandler();
        boolean chosen = own != null && !(own instanceof Fiber) && !(own instanceof ThreadGroup);
        return chosen ? own : Thread.getDefaultUncaughtExceptionHandler();
    }

    private static void print(Thread thread, Throwable failure) {
        System.err.println(describe(thread.getName(), failure));
    }

    /** The failure as text: who failed, of what, the user's own frames, and the causes below. */
    public static String describe(String name, Throwable failure) {
        StringBuilder text = new StringBuilder("Uncaught in ").append(name.isEmpty() ? "an unnamed thread" : name);
        for (Throwable t = failure; t != null; t = t.getCause()) {
            text.append(t == failure ? ": " : "\nCaused by: ").append(t);
            appendFrames(text, t.getStackTrace());
        }
        return text.toString();
    }

    private static void appendFrames(StringBuilder text, StackTraceElement[] frames) {
        List<StackTraceElement> own = new ArrayList<>();
        for (StackTraceElement f : frames) {
            if (isOwn(f.getClassName())) {
                own.add(f);
            }
        }
        for (StackTraceElement f : own) {
            text.append("\n    at ").append(f);
        }
        if (own.size() < frames.length) {
            text.append("\n    (and ").append(frames.length - own.size()).append(" frames of Clojure, Magnetar and the JDK)");
        }
    }

    private static boolean isOwn(String className) {
        return !(className.startsWith("clojure.") || className.startsWith("java.") || className.startsWith("jdk.")
                || className.startsWith("magnetar.async$") || className.startsWith("magnetar.impl.")
                || className.startsWith("magnetar.kernel."));
    }
}
