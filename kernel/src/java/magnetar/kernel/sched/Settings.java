package magnetar.kernel.sched;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What a program sets by system properties. If a property has a wrong value, one line on standard error says
 * so, and the default counts.
 */
public final class Settings {
    private static final Set<String> REPORTED = ConcurrentHashMap.newKeySet();

    private Settings() {}

    /**
     * The number that the property is set to, or the default if it is not set. Numbers below {@code least} are
     * wrong.
     */
    public static long number(String property, long least, long byDefault) {
        String text = System.getProperty(property);
        if (text == null) {
            return byDefault;
        }
        try {
            long n = Long.parseLong(text.strip());
            if (n >= least) {
                return n;
            }
        } catch (NumberFormatException notANumber) {
            // reported below
        }
        report(property, least == Long.MIN_VALUE ? "a whole number" : "a whole number, at least " + least, text, byDefault);
        return byDefault;
    }

    /** The same for an int. Larger numbers count as the largest one. */
    public static int number(String property, int least, int byDefault) {
        return (int) Math.min(number(property, (long) least, byDefault), Integer.MAX_VALUE);
    }

    /** True or false as the property is set to these words, or the default if it is not set. */
    public static boolean flag(String property, boolean byDefault) {
        String text = System.getProperty(property);
        if (text == null) {
            return byDefault;
        }
        String word = text.strip();
        boolean set = word.equalsIgnoreCase("true");
        if (set || word.equalsIgnoreCase("false")) {
            return set;
        }
        report(property, "true or false", text, byDefault);
        return byDefault;
    }

    private static void report(String property, String wanted, String text, Object byDefault) {
        if (REPORTED.add(property)) {
            System.err.println("magnetar: the property " + property + " wants " + wanted + "; it is set to \"" + text + "\", so " + byDefault
                    + " is taken.");
        }
    }
}
