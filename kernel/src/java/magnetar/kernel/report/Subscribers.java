package magnetar.kernel.report;

import java.util.Arrays;
import java.util.function.Predicate;

/**
 * Those that are told of something, in the order in which they were added.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Reading them takes no lock and allocates nothing, so they may be told of an end for lack of memory. The array
 *       never changes: a change makes a new one.
 * </ol>
 *
 * <p>Rejected: {@code CopyOnWriteArrayList}, since its iterators allocate.
 */
public final class Subscribers<T> {
    // Written under the lock, read by any thread.
    private volatile T[] all;

    /** None, as an empty array. */
    public Subscribers(T[] none) {
        all = none;
    }

    /** All of them, in an array that the caller must not change. */
    public T[] all() {
        return all;
    }

    /** True if there are no subscribers. */
    public boolean isEmpty() {
        return all.length == 0;
    }

    /** Adds one, after the others. */
    public synchronized void add(T next) {
        T[] more = Arrays.copyOf(all, all.length + 1);
        more[more.length - 1] = next;
        all = more;
    }

    /** Removes those that the test accepts. */
    public synchronized void remove(Predicate<T> test) {
        T[] left = all.clone();
        int n = 0;
        for (T each : left) {
            if (!test.test(each)) {
                left[n++] = each;
            }
        }
        all = Arrays.copyOf(left, n);
    }
}
