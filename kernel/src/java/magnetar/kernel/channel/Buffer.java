package magnetar.kernel.channel;

import java.util.AbstractCollection;
import java.util.Arrays;
import java.util.Iterator;

/**
 * The values that a channel has accepted and not handed out yet. As a collection it is a read-only view,
 * oldest value first.
 *
 * <p>Only the channel changes it, under the channel's lock. A buffer of the kernel runs no user code; for one
 * that does, see {@link #runsUserCode}.
 */
public abstract class Buffer extends AbstractCollection<Object> {
    /** For implementers. Programs use one of the factories. */
    protected Buffer() {}

    /** A buffer of n values, at least one; a put waits while it is full. */
    public static Buffer fixed(int n) {
        if (n < 1) {
            throw new IllegalArgumentException("A fixed buffer holds at least 1 value; this asks for " + n + ".");
        }
        return new Ring.Fixed(n);
    }

    /** A buffer of n values that drops the newest when full; a put never waits. */
    public static Buffer dropping(int n) {
        return new Ring.Dropping(n);
    }

    /** A buffer of n values that drops the oldest when full; a put never waits. */
    public static Buffer sliding(int n) {
        return new Ring.Sliding(n);
    }

    /** A buffer that grows as needed; a put never waits. */
    public static Buffer unbounded() {
        return new Ring.Unbounded();
    }

    /** A buffer that keeps its first value, returns it any number of times and drops the others. */
    public static Buffer promise() {
        return new Promise();
    }

    /** True while a put has to wait. */
    public abstract boolean isFull();

    /**
     * Adds a value, or drops one, depending on the kind of buffer. Called by its channel, under the channel's
     * lock.
     */
    public abstract void insert(Object value);

    /** Returns the next value. Called only while there is one. */
    public abstract Object remove();

    /** Called when the channel was closed. */
    public void close() {}

    /** How many values it can hold; -1 if unbounded. */
    public abstract int capacity();

    /** True if a put never waits. */
    public boolean isUnblocking() {
        return true;
    }

    /** True if handing a value straight to a waiting taker equals adding and removing it. */
    public boolean isTransparent() {
        return true;
    }

    /** True if the methods above run code of the program, so that the channel must not spin while they run. */
    public boolean runsUserCode() {
        return false;
    }

    /** The buffer of another library that this one wraps, else itself. */
    public Object original() {
        return this;
    }

    /** Iterates over a snapshot. One made while the channel works may miss or repeat a value. */
    @Override
    public Iterator<Object> iterator() {
        return Arrays.asList(snapshot()).iterator();
    }

    /** The values now, oldest first. */
    public abstract Object[] snapshot();

    /** The buffer of a promise channel. */
    static final class Promise extends Buffer {
        // Guarded by the channel's lock.
        private Object value;

        @Override
        public boolean isFull() {
            return false;
        }

        @Override
        public void insert(Object v) {
            if (value == null) {
                value = v;
            }
        }

        @Override
        public Object remove() {
            return value;
        }

        @Override
        public int size() {
            return value == null ? 0 : 1;
        }

        @Override
        public int capacity() {
            return 1;
        }

        @Override
        public boolean isTransparent() {
            return false;
        }

        @Override
        public Object[] snapshot() {
            Object v = value;
            return v == null ? new Object[0] : new Object[] {v};
        }
    }
}
