package magnetar.kernel.channel;

import java.util.NoSuchElementException;

/**
 * A first-in-first-out buffer in a ring whose length is a power of two.
 *
 * <p>The array is made for the first value and doubles up to the capacity. So an empty buffer costs nothing, and
 * a buffer of a million costs only what it holds. The kernel allocates under a channel's lock only this array,
 * whose cost is amortised, a {@link NodeQueue}, and the ring of a {@link Buffer.Fixed}. Each is made before the
 * channel changes, so that an operation without memory for it leaves the channel as it was. A transform that adds
 * several values is different: those added before stay.
 */
abstract sealed class Ring extends Buffer {
    private static final int FIRST = 8;

    final int capacity;

    // Guarded by the channel's lock; count is read without it, as a hint.
    private Object[] values;
    private int head;
    private int count;

    Ring(int capacity) {
        if (capacity < 0) {
            throw new IllegalArgumentException("A buffer holds 0 or more values; this asks for " + capacity + ".");
        }
        this.capacity = capacity;
    }

    final void addLast(Object value) {
        if (values == null || count == values.length) {
            grow();
        }
        values[(head + count) & (values.length - 1)] = value;
        count++;
    }

    final Object removeFirst() {
        if (count == 0) {
            throw new NoSuchElementException("The buffer is empty.");
        }
        Object value = values[head];
        values[head] = null;
        head = (head + 1) & (values.length - 1);
        count--;
        return value;
    }

    private void grow() {
        int size = values == null ? firstSize() : values.length * 2;
        Object[] larger = new Object[size];
        for (int i = 0; i < count; i++) {
            larger[i] = values[(head + i) & (values.length - 1)];
        }
        values = larger;
        head = 0;
    }

    private int firstSize() {
        return capacity >= FIRST ? FIRST : Integer.highestOneBit(Math.max(1, capacity * 2 - 1));
    }

    @Override
    public Object remove() {
        return removeFirst();
    }

    @Override
    public final int size() {
        return count;
    }

    @Override
    public int capacity() {
        return capacity;
    }

    @Override
    public boolean isFull() {
        return false;
    }

    /** A buffer of capacity 0 drops a value even if a taker waits, as in core.async. */
    @Override
    public boolean isTransparent() {
        return capacity() != 0;
    }

    @Override
    public final Object[] snapshot() {
        Object[] from = values;
        Object[] copy = new Object[from == null ? 0 : Math.min(count, from.length)];
        for (int i = 0; i < copy.length; i++) {
            copy[i] = from[(head + i) & (from.length - 1)];
        }
        return copy;
    }

    /** Full at its capacity. */
    static final class Fixed extends Ring {
        Fixed(int capacity) {
            super(capacity);
        }

        @Override
        public boolean isFull() {
            return size() >= capacity;
        }

        @Override
        public boolean isUnblocking() {
            return false;
        }

        @Override
        public void insert(Object value) {
            addLast(value);
        }
    }

    /** Drops the newest. */
    static final class Dropping extends Ring {
        Dropping(int capacity) {
            super(capacity);
        }

        @Override
        public void insert(Object value) {
            if (size() < capacity) {
                addLast(value);
            }
        }
    }

    /** Drops the oldest. */
    static final class Sliding extends Ring {
        Sliding(int capacity) {
            super(capacity);
        }

        @Override
        public void insert(Object value) {
            if (size() == capacity && capacity > 0) {
                removeFirst();
            }
            if (capacity > 0) {
                addLast(value);
            }
        }
    }

    /** Drops nothing. */
    static final class Unbounded extends Ring {
        Unbounded() {
            super(0);
        }

        @Override
        public int capacity() {
            return -1;
        }

        @Override
        public void insert(Object value) {
            addLast(value);
        }
    }
}
