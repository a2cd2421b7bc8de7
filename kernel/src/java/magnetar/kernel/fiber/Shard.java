package magnetar.kernel.fiber;

import java.util.Arrays;
import java.util.function.Consumer;

/**
 * A part of the list of fibers with a lock of its own. That lock is the innermost one.
 *
 * <p>Invariants, whenever the lock is free:
 * <ol>
 *   <li>The first {@code size} places of the array hold the listed fibers, and each fiber knows its place. The
 *       other places are null.
 *   <li>The array is doubled when it is full, and halved when three quarters of it are free. So the list costs
 *       a listed fiber 16 bytes at most, if it is not small and there was memory to halve it.
 *   <li>A fiber that finds no memory for a longer array is not listed, and the list stays as it was. A removal
 *       never fails.
 * </ol>
 *
 * <p>The last fiber moves to the place of one that leaves. Rejected: a doubly linked list. To leave it takes a
 * write to each neighbour, which is seldom in the cache, and the collector has to note a reference between
 * objects of different age for each of them.
 */
final class Shard {
    private static final int SMALL = 16;

    private final byte number;

    // Guarded by this. The test reads the array.
    Fiber[] fibers = new Fiber[SMALL];
    private int size;

    Shard(byte number) {
        this.number = number;
    }

    synchronized void add(Fiber f) {
        if (size == fibers.length) {
            fibers = Arrays.copyOf(fibers, 2 * size);
        }
        f.shard = number;
        f.place = size;
        fibers[size++] = f;
    }

    synchronized void remove(Fiber f) {
        if (f.shard != number) {
            return;
        }
        Fiber last = fibers[--size];
        fibers[size] = null;
        if (last != f) {
            fibers[f.place] = last;
            last.place = f.place;
        }
        f.shard = Fiber.UNLISTED;
        int fitting = fitting(fibers.length, size);
        if (fitting != fibers.length) {
            shrink(fitting);
        }
    }

    /**
     * The length that an array gets when a fiber has left and so many are listed, fewer than the array has
     * places. It changes at powers of two only: an array that is refused costs a full collection, and where
     * memory is short many fibers end.
     */
    static int fitting(int length, int size) {
        boolean isPowerOfTwo = (size & size - 1) == 0;
        return isPowerOfTwo ? Math.max(SMALL, 2 * size) : length;
    }

    private void shrink(int length) {
        try {
            fibers = Arrays.copyOf(fibers, length);
        } catch (OutOfMemoryError noRoom) {
            // A later removal tries it again.
        }
    }

    synchronized int size() {
        return size;
    }

    synchronized void each(Consumer<Fiber> visit) {
        for (int i = 0; i < size; i++) {
            visit.accept(fibers[i]);
        }
    }
}
