package magnetar.kernel.report;

import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;

/**
 * Prints a stack for a user: only frames of the program, each function once and named as in its source,
 * repeated frames folded.
 *
 * <p>Clojure calls one function by up to two frames of one class, {@code invoke} and {@code invokeStatic}.
 * Here they are one line.
 */
public final class Frames {
    private static final int LONGEST_CYCLE = 8; // of functions that call each other
    private static final int LEAST_REPEATS = 3;

    private static final String[] FOREIGN = {"clojure.", "java.", "javax.", "jdk.", "sun."};

    private static final String LIBRARY = "magnetar.";

    // What follows LIBRARY, so that a frame which does not begin with that is compared once. A crash has dozens of frames.
    private static final String[] OF_LIBRARY = {"actor$", "actor.", "agent$", "application$", "application.", "async$",
            "bits$", "breaker$", "channel$", "cluster$", "cluster.", "dev.", "erlang$", "erlang.", "etf$", "etf.", "fold$", "gen_event$", "gen_event.", "gen_server$", "gen_server.", "gen_statem$",
            "gen_statem.", "global$", "hot$", "hot.", "http$", "http.", "impl.", "inspect$", "inspect.", "kernel.", "match$", "net$", "net.", "nrepl$", "nrepl.", "otel$", "otel.",
            "overload$", "pg$", "pool$", "pool.", "proc_lib$", "proc_lib.", "registry$", "registry.", "report$",
            "resilience$", "resilience.", "scope$", "scope.", "supervisor$", "supervisor.", "sys$", "sys.",
            "table$", "table.", "task$", "task.", "telemetry$", "telemetry.", "test$", "test.", "timer$", "trace$"};

    // Set or read by any thread: maps the name of a class to the name of its function.
    private static volatile UnaryOperator<String> names = UnaryOperator.identity();

    private Frames() {}

    /** Sets the function that maps the class of a function to its name. */
    public static void setNames(UnaryOperator<String> next) {
        names = next;
    }

    /**
     * The frames of the program alone, or all frames if the program has none. For an error that wraps another
     * one: a printer that omits the frames which an error shares with its cause would otherwise omit the
     * program's own frames.
     */
    public static StackTraceElement[] own(StackTraceElement[] frames) {
        List<StackTraceElement> own = new ArrayList<>();
        for (StackTraceElement f : frames) {
            if (isOfProgram(f.getClassName())) {
                own.add(f);
            }
        }
        return own.isEmpty() ? frames : own.toArray(new StackTraceElement[0]);
    }

    /** The lines of the frames that belong to the program, innermost first, at most so many. */
    public static List<String> ofProgram(StackTraceElement[] frames, int most) {
        List<String> lines = folded(calls(frames));
        if (lines.size() <= most) {
            return lines;
        }
        List<String> shown = new ArrayList<>(lines.subList(0, most));
        shown.add("(and " + (lines.size() - most) + " more)");
        return shown;
    }

    private static List<String> calls(StackTraceElement[] frames) {
        List<String> lines = new ArrayList<>();
        StackTraceElement inner = null;
        for (StackTraceElement f : frames) {
            if (isOfProgram(f.getClassName()) && !isEntry(inner, f)) {
                lines.add(line(f));
            }
            inner = f;
        }
        return lines;
    }

    /** True if the function of the inner frame was entered by this one. */
    private static boolean isEntry(StackTraceElement inner, StackTraceElement f) {
        return inner != null && inner.getClassName().equals(f.getClassName())
                && inner.getMethodName().startsWith("invoke") && !inner.getMethodName().equals("invoke") && isCall(f);
    }

    private static boolean isCall(StackTraceElement f) {
        String method = f.getMethodName();
        return method.startsWith("invoke") || method.equals("doInvoke") || method.equals("applyTo") || method.equals("call") || method.equals("run");
    }

    private static String line(StackTraceElement f) {
        String type = f.getClassName();
        String name = type.indexOf('$') > 0 && isCall(f) ? named(type) : type + "/" + f.getMethodName();
        String file = f.getFileName() == null ? "?" : f.getFileName();
        return name + (f.getLineNumber() < 0 ? " (" + file + ")" : " (" + file + ":" + f.getLineNumber() + ")");
    }

    private static String named(String type) {
        try {
            return names.apply(type);
        } catch (RuntimeException unnamed) {
            return type;
        }
    }

    // An infinite recursion leaves a thousand lines.
    private static List<String> folded(List<String> lines) {
        List<String> folded = new ArrayList<>();
        int i = 0;
        while (i < lines.size()) {
            int cycle = cycleAt(lines, i);
            int repeats = cycle == 0 ? 1 : repeats(lines, i, cycle);
            int length = Math.max(1, cycle);
            folded.addAll(lines.subList(i, i + length));
            if (cycle != 0) {
                String what = cycle == 1 ? "(the line above" : "(the " + cycle + " lines above";
                folded.add(what + ", " + (repeats - 1) + " times more)");
            }
            i += length * repeats;
        }
        return folded;
    }

    private static int cycleAt(List<String> lines, int from) {
        for (int cycle = 1; cycle <= LONGEST_CYCLE; cycle++) {
            if (repeats(lines, from, cycle) >= LEAST_REPEATS) {
                return cycle;
            }
        }
        return 0;
    }

    private static int repeats(List<String> lines, int from, int cycle) {
        int end = from + cycle;
        while (end < lines.size() && lines.get(end).equals(lines.get(end - cycle))) {
            end++;
        }
        return (end - from) / cycle;
    }

    /** True if the class belongs neither to Clojure, nor to this library, nor to the JDK. */
    public static boolean isOfProgram(String className) {
        return !hasOneAt(className, 0, FOREIGN)
                && !(className.startsWith(LIBRARY) && hasOneAt(className, LIBRARY.length(), OF_LIBRARY));
    }

    private static boolean hasOneAt(String className, int offset, String[] prefixes) {
        for (String prefix : prefixes) {
            if (className.startsWith(prefix, offset)) {
                return true;
            }
        }
        return false;
    }
}
