package magnetar.kernel.park;

import java.util.ArrayList;
import java.util.List;
import magnetar.kernel.fiber.Simulated;

/**
 * An event that happens once, and that any number of fibers may wait for.
 *
 * <p>Invariants:
 * <ol>
 *   <li>What was written before {@link #open} is seen by whoever has waited, or has found it {@link #isOpen open}.
 *   <li>A waiter that gave up is not in the list once its call has returned.
 * </ol>
 *
 * <p>The monitor is held for a few instructions, and no other lock is taken under it.
 */
public class Gate {
    private volatile boolean open;

    // Guarded by the monitor; null while nobody waits.
    private List<Waiter> waiters;

    /** True once it has happened. */
    public final boolean isOpen() {
        return open;
    }

    /** Lets it happen, and wakes all who wait. The first call counts; false for the others. */
    public final boolean open() {
        List<Waiter> woken;
        Simulated.switchPoint();
        synchronized (this) {
            if (open) {
                return false;
            }
            open = true;
            woken = waiters;
            waiters = null;
        }
        if (woken != null) {
            for (int i = 0; i < woken.size(); i++) { // without an iterator or a lambda: memory may have ended, and all have to be woken
                wake(woken.get(i));
            }
        }
        return true;
    }

    private void wake(Waiter waiter) {
        if (waiter.claim()) {
            waiter.complete(this, null);
        }
    }

    /** Adds a waiter; false if it need not wait. */
    public final synchronized boolean add(Waiter waiter) {
        if (open) {
            return false;
        }
        if (waiters == null) {
            waiters = new ArrayList<>(1);
        }
        waiters.add(waiter);
        return true;
    }

    /** Takes out a waiter that gave up. */
    public final synchronized void remove(Waiter waiter) {
        if (waiters != null) {
            waiters.remove(waiter);
        }
    }
}
