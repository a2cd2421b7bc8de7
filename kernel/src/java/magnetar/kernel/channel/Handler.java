package magnetar.kernel.channel;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;

/**
 * The party of an operation on a port of another library. It follows core.async's {@code Handler}, which is
 * also a {@code Lock}; only {@link #lock} and {@link #unlock} are used.
 *
 * <p>{@link #active} may be called without the lock. {@link #commit} is called once, under the lock, while
 * active. Two handlers are locked in the order of their ids.
 */
public interface Handler extends Lock {
    /** True until it was committed. */
    boolean active();

    /** True if the operation may be queued. Otherwise it happens now or not at all. */
    boolean blockable();

    /** The order of locking; 0 for a handler that needs no lock. */
    long lockId();

    /** Commits to the operation and returns the receiver of its result. */
    Completion commit();

    @Override
    default void lockInterruptibly() {
        throw new UnsupportedOperationException("A handler is locked by lock().");
    }

    @Override
    default boolean tryLock() {
        throw new UnsupportedOperationException("A handler is locked by lock().");
    }

    @Override
    default boolean tryLock(long time, TimeUnit unit) {
        throw new UnsupportedOperationException("A handler is locked by lock().");
    }

    @Override
    default Condition newCondition() {
        throw new UnsupportedOperationException("A handler has no conditions.");
    }

    /** Receives the result of an operation that was queued. */
    @FunctionalInterface
    interface Completion {
        /** Receives the value of a take (null if closed), or true or false for a put. */
        void complete(Object result);
    }
}
