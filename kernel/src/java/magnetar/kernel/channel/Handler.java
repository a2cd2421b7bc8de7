package magnetar.kernel.channel;

/**
 * The party of an operation on a port of another library: the contract of core.async's {@code Handler}, and of the
 * {@code Lock} that it is as well.
 *
 * <p>{@link #active} may be asked without the lock; {@link #commit} is called under it, once, while active. Two handlers are
 * locked in the order of their ids.
 */
public interface Handler {
    /** True until it was committed. */
    boolean active();

    /** True if the operation may be queued; else it happens now or not at all. */
    boolean blockable();

    /** The order of locking; 0 for a handler that needs no lock. */
    long lockId();

    /** Commits to the operation and returns what takes its result. */
    Completion commit();

    /** Locks the claim. */
    void lock();

    /** Unlocks the claim. */
    void unlock();

    /** Takes the result of an operation that was queued. */
    @FunctionalInterface
    interface Completion {
        /** Takes the value of a take (null: closed), or true or false for a put. */
        void complete(Object result);
    }
}
