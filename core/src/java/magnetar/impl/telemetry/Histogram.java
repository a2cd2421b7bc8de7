package magnetar.impl.telemetry;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.LongAdder;

/**
 * Counts durations. It tells their number, mean, maximum and percentiles.
 *
 * <p>A power of two is divided into {@value #STEPS} buckets of equal width. So a percentile, which is the middle of
 * a bucket, is within a 32nd of the exact one. A histogram takes 8 kB.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Any thread may add. An addition allocates nothing and waits for no other thread.
 *   <li>The bucket of a larger duration is the same or a later one.
 * </ol>
 *
 * <p>Source: the buckets of HdrHistogram. Rejected: HdrHistogram itself. The library has no dependencies, and needs
 * none of its other features: a choice of precision, and recorders that swap.
 */
public final class Histogram {
    private static final int BITS = 4;
    private static final int STEPS = 1 << BITS;
    private static final int BUCKETS = (Long.SIZE - BITS) * STEPS;

    private final AtomicLongArray buckets = new AtomicLongArray(BUCKETS);
    private final LongAdder sum = new LongAdder();
    private final AtomicLong max = new AtomicLong();

    /** A summary of what was added before. The durations are in nanoseconds, and 0 if there was none. */
    public record Summary(long count, double mean, long p50, long p90, long p99, long max) {}

    /** Adds a duration. A negative one counts as 0. */
    public void add(long nanos) {
        long value = Math.max(0, nanos);
        buckets.getAndIncrement(bucketOf(value));
        sum.add(value);
        long before = max.get();
        while (value > before && !max.compareAndSet(before, value)) {
            before = max.get();
        }
    }

    /** Returns a summary. What is added meanwhile may be in a part of it only. */
    public Summary summary() {
        long[] counts = new long[BUCKETS];
        long count = 0;
        for (int i = 0; i < BUCKETS; i++) {
            counts[i] = buckets.get(i);
            count += counts[i];
        }
        long most = max.get();
        double mean = count == 0 ? 0 : (double) sum.sum() / count;
        return new Summary(count, mean, percentile(counts, count, 50, most), percentile(counts, count, 90, most), percentile(counts, count, 99, most), most);
    }

    private static long percentile(long[] counts, long count, int percent, long most) {
        long wanted = (count * percent + 99) / 100; // the rank, rounded up
        long seen = 0;
        for (int i = 0; i < BUCKETS && wanted > 0; i++) {
            seen += counts[i];
            if (seen >= wanted) {
                return Math.min(most, middleOf(i));
            }
        }
        return most;
    }

    static int bucketOf(long value) {
        if (value < STEPS) {
            return (int) value;
        }
        int shift = Long.SIZE - 1 - BITS - Long.numberOfLeadingZeros(value);
        return (shift + 1) * STEPS + (int) (value >>> shift) - STEPS;
    }

    private static long middleOf(int bucket) {
        if (bucket < STEPS) {
            return bucket;
        }
        int shift = bucket / STEPS - 1;
        return ((long) (bucket % STEPS + STEPS) << shift) + ((1L << shift) >> 1);
    }
}
