package magnetar.kernel.fiber;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.VarHandle;

/**
 * Tells whether the current thread has any thread-locals, or a certain one, without creating their table or
 * an entry of it.
 *
 * <p>{@link ThreadLocal#get} makes that table, about 250 bytes, for a thread that has none. A fiber that is
 * asked for each message would carry it for nothing. Where {@code java.lang} is closed the answer is always
 * "it may have".
 */
public final class ThreadLocals {
    private static final VarHandle TABLE = open();
    private static final MethodHandle ENTRY = TABLE == null ? null : openEntry();

    private ThreadLocals() {}

    private static VarHandle open() {
        try {
            return MethodHandles.privateLookupIn(Thread.class, MethodHandles.lookup())
                    .findVarHandle(Thread.class, "threadLocals", Class.forName("java.lang.ThreadLocal$ThreadLocalMap"));
        } catch (ReflectiveOperationException | RuntimeException closed) {
            return null;
        }
    }

    private static MethodHandle openEntry() {
        try {
            MethodHandle entry = MethodHandles.privateLookupIn(TABLE.varType(), MethodHandles.lookup()).findVirtual(TABLE.varType(), "getEntry",
                    MethodType.methodType(Class.forName("java.lang.ThreadLocal$ThreadLocalMap$Entry"), ThreadLocal.class));
            return entry.asType(MethodType.methodType(Object.class, Object.class, ThreadLocal.class));
        } catch (ReflectiveOperationException | RuntimeException closed) {
            return null;
        }
    }

    /** False only if the current thread has no value for this one. */
    public static boolean mayHold(ThreadLocal<?> local) {
        if (TABLE == null) {
            return true;
        }
        Object table = (Object) TABLE.get(Thread.currentThread());
        if (table == null || ENTRY == null) {
            return table != null;
        }
        try {
            return (Object) ENTRY.invokeExact(table, local) != null;
        } catch (Throwable unknown) {
            return true;
        }
    }

    /** False only if the current thread has none. */
    public static boolean mayExist() {
        return TABLE == null || (Object) TABLE.get(Thread.currentThread()) != null;
    }
}
