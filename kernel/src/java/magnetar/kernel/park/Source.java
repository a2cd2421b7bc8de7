package magnetar.kernel.park;

/**
 * Something that can become ready, and that a fiber can wait for together with others. All of them claim the
 * same waiter.
 */
public interface Source {
    /**
     * Registers a waiter, which is claimed and completed with this source once it is ready; false if it is
     * ready now.
     */
    boolean enlist(Waiter waiter);

    /** Removes a waiter that no longer waits. */
    void delist(Waiter waiter);
}
