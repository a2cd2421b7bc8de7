package magnetar.kernel.park;

/** Something that may become ready, and that one fiber waits for together with other things: each claims the same waiter. */
public interface Source {
    /** Lets the waiter be claimed and completed, with this as the source, once this is ready; false if it is ready now. */
    boolean enlist(Waiter waiter);

    /** Forgets a waiter that does not wait any more. */
    void delist(Waiter waiter);
}
