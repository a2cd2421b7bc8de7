package magnetar.kernel.fiber;

import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Supplier;
import magnetar.kernel.report.Failures;

/**
 * Thread-locals of other libraries that travel with the context values, to started fibers and with messages.
 * It is off until a program turns it on.
 *
 * <p>Invariants:
 * <ol>
 *   <li>While it is off, nothing is allocated here: capturing and entering read one static field.
 *   <li>What was captured is immutable, and is put in place by the propagation that captured it. So a program
 *       may turn it off or choose other thread-locals while messages are under way.
 *   <li>Thread-locals are read and written by the thread that they belong to: {@link Fiber#outgoing} and all
 *       methods that put something in place are called on the fiber itself.
 *   <li>The context of a running fiber is never a {@link Captured}. {@link Fiber#takeUp} and
 *       {@link Fiber#enterContext} split it into context values, which the fiber keeps, and thread-locals,
 *       which the thread keeps. So a thread-local has one value, and not a stale copy in the context.
 *   <li>An accessor whose {@code set} or {@code clear} was called to enter is told to {@code restore} or
 *       {@code unset} to leave, in the same thread. Some accessors open a scope in the one and close it in
 *       the other. A thread-local that was only changed by the work itself is set back.
 *   <li>A failing accessor is reported, and changes neither what else travels nor the work.
 * </ol>
 *
 * <p>Rejected: capturing in {@code setContext} and {@code context}, because reading a context value would copy
 * all thread-locals. Also rejected: an entry in the map of context values, which each change of a thread-local
 * would make stale.
 */
public final class Propagation {
    // Set by any thread; null while off.
    private static volatile Propagation current;

    private final Accessor[] accessors;

    /** These thread-locals travel. */
    public Propagation(Accessor... accessors) {
        this.accessors = accessors.clone();
    }

    /** Turns it on, or with null off, for the whole JVM. */
    public static void use(Propagation next) {
        current = next;
    }

    /** True if it is on. */
    public static boolean isOn() {
        return current != null;
    }

    /**
     * Access to one thread-local. The value null means that it is not set.
     *
     * @param key what it is called
     * @param get returns its value
     * @param set gives it a value
     * @param clear takes its value away
     * @param restore gives it the value back that it had before {@code set} or {@code clear}
     * @param unset takes its value away, as it had none before {@code set}
     * @param isOfMessage whether it says something of a message, and nothing of what a program may ask for
     */
    public record Accessor(Object key, Supplier<?> get, Consumer<Object> set, Runnable clear, Consumer<Object> restore, Runnable unset,
            boolean isOfMessage) {
        /** Access to a thread-local that a program may ask for. */
        public Accessor(Object key, Supplier<?> get, Consumer<Object> set, Runnable clear, Consumer<Object> restore, Runnable unset) {
            this(key, get, set, clear, restore, unset, false);
        }

        private Object value() {
            try {
                return get.get();
            } catch (Exception | LinkageError e) {
                report(e);
                return null;
            }
        }

        private void change(Object to) {
            put(to, set, clear);
        }

        private void changeBack(Object to) {
            put(to, restore, unset);
        }

        /** Gives the thread-local back what it had, after the work for which it got another value, or the same. */
        private void giveBack(Object had, Object got) {
            if (!Objects.equals(had, got)) {
                changeBack(had);
            } else if (!Objects.equals(had, value())) {
                change(had);
            }
        }

        private static void put(Object value, Consumer<Object> with, Runnable without) {
            try {
                if (value == null) {
                    without.run();
                } else {
                    with.accept(value);
                }
            } catch (Exception | LinkageError e) {
                report(e);
            }
        }

        private static void report(Throwable e) {
            Failures.report(Thread.currentThread(), e);
        }
    }

    /** Context values together with the thread-locals that travel with them. At least one is set. */
    public static final class Captured {
        private final Propagation by;
        private final Object values;
        private final Object[] locals;

        private Captured(Propagation by, Object values, Object[] locals) {
            this.by = by;
            this.values = values;
            this.locals = locals;
        }

        private boolean isOfMessage() {
            for (int i = 0; i < locals.length; i++) {
                if (locals[i] != null && !by.accessors[i].isOfMessage) {
                    return false;
                }
            }
            return values == null;
        }

        /** The same, of the thread-locals that travel by the other propagation too. */
        private Captured as(Propagation other) {
            if (by == other) {
                return this;
            }
            Object[] both = new Object[other.accessors.length];
            for (int i = 0; i < both.length; i++) {
                both[i] = at(locals, by.indexOf(other.accessors[i]));
            }
            return new Captured(other, values, both);
        }
    }

    /** What a fiber had before it entered a context, and which thread-locals it got. */
    private record Before(Propagation by, Object values, Object[] had, Object[] got) {}

    /** The context values of what was captured, or null. */
    public static Object valuesOf(Object captured) {
        return captured instanceof Captured c ? c.values : captured;
    }

    /** The context of a message; null if a program may ask for nothing in it. */
    public static Object askedFor(Object captured) {
        return captured instanceof Captured c && c.isOfMessage() ? null : captured;
    }

    /** The first captured thread-local whose value is of the class; null if there is none. */
    public static <T> T localOf(Object captured, Class<T> of) {
        if (captured instanceof Captured c) {
            for (Object value : c.locals) {
                if (of.isInstance(value)) {
                    return of.cast(value);
                }
            }
        }
        return null;
    }

    /** These context values with the thread-locals of what was captured. */
    private static Object withValues(Object captured, Object values) {
        return captured instanceof Captured c ? new Captured(c.by, values, c.locals) : values;
    }

    /**
     * These context values with the thread-locals of both. Where both have one, the value is the one in
     * {@code upper}.
     */
    public static Object over(Object lower, Object upper, Object values) {
        if (!(lower instanceof Captured l)) {
            return withValues(upper, values);
        }
        if (!(upper instanceof Captured u)) {
            return withValues(lower, values);
        }
        return new Captured(u.by, values, merged(l.as(u.by).locals, u.locals));
    }

    private static Object[] merged(Object[] lower, Object[] upper) {
        Object[] both = lower.clone();
        for (int i = 0; i < both.length; i++) {
            if (upper[i] != null) {
                both[i] = upper[i];
            }
        }
        return both;
    }

    /** The context values, with the thread-locals that are set in this thread. */
    static Object capture(Object values) {
        Propagation on = current;
        if (on == null) {
            return values;
        }
        Object[] locals = on.locals();
        return locals == null ? values : new Captured(on, values, locals);
    }

    /** What the context has captured of the accessor's thread-local, or null. */
    public static Object local(Object context, Accessor accessor) {
        return context instanceof Captured c ? at(c.locals, c.by.indexOf(accessor)) : null;
    }

    /** The context with this value for the accessor's thread-local, if that travels now. */
    public static Object withLocal(Object context, Accessor accessor, Object value) {
        Propagation on = current;
        int place = on == null ? -1 : on.indexOf(accessor);
        if (place < 0) {
            return context;
        }
        Object[] locals = context instanceof Captured c ? c.as(on).locals.clone() : new Object[on.accessors.length];
        locals[place] = value;
        return new Captured(on, valuesOf(context), locals);
    }

    private int indexOf(Accessor accessor) {
        for (int i = 0; i < accessors.length; i++) {
            if (accessors[i] == accessor) {
                return i;
            }
        }
        return -1;
    }

    /** The values of the thread-locals of this thread; null if none is set. */
    private Object[] locals() {
        Object[] values = null;
        for (int i = 0; i < accessors.length; i++) {
            Object value = accessors[i].value();
            if (value != null) {
                if (values == null) {
                    values = new Object[accessors.length];
                }
                values[i] = value;
            }
        }
        return values;
    }

    /**
     * Sets and clears thread-locals of this thread, so that they are as captured. Returns the context values
     * if nothing can have to be restored, else a record for {@link #leave}.
     */
    static Object enter(Object values, Object captured) {
        Propagation by = captured instanceof Captured c ? c.by : current;
        if (by == null) {
            return values;
        }
        Object[] had = by.locals();
        Object[] get = captured instanceof Captured c ? c.locals : null;
        for (int i = 0; i < by.accessors.length; i++) {
            Object to = at(get, i);
            if (!Objects.equals(to, at(had, i))) {
                by.accessors[i].change(to);
            }
        }
        return new Before(by, values, had, get);
    }

    /**
     * Returns the context values, or a record by which {@link #leave} undoes what the work changes in the
     * thread-locals of this thread.
     */
    static Object keep(Object values) {
        Propagation on = current;
        if (on == null) {
            return values;
        }
        Object[] had = on.locals();
        return new Before(on, values, had, had);
    }

    /** Restores the thread-locals of this thread. Returns the context values. */
    static Object leave(Object before) {
        if (!(before instanceof Before b)) {
            return before;
        }
        for (int i = 0; i < b.by.accessors.length; i++) {
            b.by.accessors[i].giveBack(at(b.had, i), at(b.got, i));
        }
        return b.values;
    }

    /** Sets thread-locals of this thread, which is new. Returns the context values. */
    static Object takeUp(Captured captured) {
        for (int i = 0; i < captured.locals.length; i++) {
            if (captured.locals[i] != null) {
                captured.by.accessors[i].change(captured.locals[i]);
            }
        }
        return captured.values;
    }

    private static Object at(Object[] values, int i) {
        return values == null || i < 0 ? null : values[i];
    }
}
