package magnetar.kernel.channel;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;

/**
 * The party of an operation on a port of another library: the contract of core.async's {@code Handler}, and the
 * {@code Lock} that it is as well. Only {@link #lock} and {@link #unlock} of the lock are used.
 *
 * <p>{@link #active} may be asked without the lock; {@link #commit} is called under it, once, while active. Two handlers are
 * locked in the order of their ids.
 */
public interface Handler extends Lock {
    /** True until it was committed. */
    boolean active();

    /** True if the operation may be queued; else it happens now or not at all. */
    boolean blockable();

    /** The order of locking; 0 for a handler that needs no lock. */
    long lockId();

    /** Commits to the operation and returns what takes its result. */
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

    /** Takes the result of an operation that was queued. */
    @FunctionalInterface
    interface Completion {
        /** Takes the value of a take (null: closed), or true or false for a put. */
        void complete(Object result);
    }
}
