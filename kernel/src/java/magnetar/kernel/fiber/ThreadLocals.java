package magnetar.kernel.fiber;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * Tells whether the current thread has any thread-locals, without creating their table.
 *
 * <p>{@link ThreadLocal#get} makes that table, about 250 bytes, for a thread that has none. A fiber that is
 * asked for each message would carry it for nothing. Where {@code java.lang} is closed the answer is always
 * "it may have".
 */
public final class ThreadLocals {
    private static final VarHandle TABLE = open();

    private ThreadLocals() {}

    private static VarHandle open() {
        try {
            return MethodHandles.privateLookupIn(Thread.class, MethodHandles.lookup())
                    .findVarHandle(Thread.class, "threadLocals", Class.forName("java.lang.ThreadLocal$ThreadLocalMap"));
        } catch (ReflectiveOperationException | RuntimeException closed) {
            return null;
        }
    }

    /** False only if the current thread has none. */
    public static boolean mayExist() {
        return TABLE == null || (Object) TABLE.get(Thread.currentThread()) != null;
    }
}
