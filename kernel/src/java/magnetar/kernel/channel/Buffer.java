package magnetar.kernel.channel;

import java.util.AbstractCollection;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import magnetar.kernel.fiber.Fiber;

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
        return n == 1 ? new Fixed() : new Ring.Fixed(n);
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

    /**
     * A fixed buffer of one value, such as the channel of a go block's result has. It makes a ring for more than
     * one value, which only a transform adds. It has the name of the larger ones, {@link Ring.Fixed}, because
     * {@code datafy} shows it.
     *
     * <p>Its third field fits into the padding of the object: with 64-bit headers and compressed references it has
     * 24 bytes with and without it.
     */
    static final class Fixed extends Buffer {
        // Guarded by the channel's lock, read without it as a hint. While there are more, there is an oldest.
        private Object oldest;
        private Ring more;

        // The fiber that will finish the channel, or null. Written by that fiber without the lock, read by any
        // thread as a hint.
        Fiber finisher;

        @Override
        public boolean isFull() {
            return oldest != null;
        }

        @Override
        public void close() {
            finisher = null;
        }

        @Override
        public void insert(Object v) {
            if (oldest == null) {
                oldest = v;
                return;
            }
            if (more == null) {
                more = new Ring.Unbounded();
            }
            more.addLast(v);
        }

        @Override
        public Object remove() {
            if (oldest == null) {
                throw new NoSuchElementException("The buffer is empty.");
            }
            Object v = oldest;
            oldest = more == null || more.size() == 0 ? null : more.removeFirst();
            return v;
        }

        @Override
        public int size() {
            Ring m = more;
            return (oldest == null ? 0 : 1) + (m == null ? 0 : m.size());
        }

        @Override
        public int capacity() {
            return 1;
        }

        @Override
        public boolean isUnblocking() {
            return false;
        }

        @Override
        public Object[] snapshot() {
            Object v = oldest;
            Ring m = more; // read once, because this may run without the lock
            Object[] rest = m == null ? new Object[0] : m.snapshot();
            if (v == null) {
                return rest;
            }
            Object[] all = new Object[1 + rest.length];
            all[0] = v;
            System.arraycopy(rest, 0, all, 1, rest.length);
            return all;
        }
    }

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
