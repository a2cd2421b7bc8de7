package magnetar.kernel.time;

import java.time.Duration;

/** Converts durations: a number of milliseconds, a {@link Duration}, or {@code :infinity}. */
public final class Durations {
    /** The number of nanoseconds that stands for no limit. */
    public static final long INFINITE = Long.MAX_VALUE;

    private static final long MAX_MILLIS = INFINITE / 1_000_000;
    private static final Duration LONGEST = Duration.ofNanos(INFINITE);

    private Durations() {}

    /**
     * The duration in nanoseconds; {@link #INFINITE} for {@code :infinity} and for a duration that a long
     * cannot count.
     *
     * @throws IllegalArgumentException if it is negative or not a duration
     */
    public static long nanos(Object duration) {
        if (duration instanceof Duration d) {
            return positive(d.isNegative(), duration, nanos(d));
        }
        if (duration instanceof Number n) {
            return positive(!(n.doubleValue() >= 0), duration, millis(n));
        }
        if (duration != null && !(duration instanceof CharSequence) && duration.toString().equals(":infinity")) {
            return INFINITE;
        }
        throw refuse(duration);
    }

    /**
     * Zero for a negative duration, which the caller refuses. {@link Duration#toNanos} throws if a long
     * cannot count the nanoseconds.
     */
    private static long nanos(Duration d) {
        return d.isNegative() ? 0 : d.compareTo(LONGEST) >= 0 ? INFINITE : d.toNanos();
    }

    private static long millis(Number n) {
        boolean whole = n instanceof Long || n instanceof Integer || n instanceof Short || n instanceof Byte;
        if (n.doubleValue() >= MAX_MILLIS) {
            return INFINITE;
        }
        return whole ? n.longValue() * 1_000_000 : (long) (n.doubleValue() * 1_000_000);
    }

    private static long positive(boolean refused, Object duration, long nanos) {
        if (refused) {
            throw refuse(duration);
        }
        return nanos;
    }

    private static IllegalArgumentException refuse(Object duration) {
        return new IllegalArgumentException("A duration is a number of milliseconds from 0 up, a java.time.Duration or :infinity; this is "
                + duration + (duration == null ? "." : " of " + duration.getClass().getName() + "."));
    }

    /** The instant this many nanoseconds after now; {@link #INFINITE} if a long cannot count it. */
    public static long deadline(long now, long nanos) {
        long instant = now + nanos;
        return nanos == INFINITE || instant < now ? INFINITE : instant;
    }
}
