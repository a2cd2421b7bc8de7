package magnetar.kernel.park;

import java.util.ArrayList;
import java.util.List;
import magnetar.kernel.fiber.Simulated;

/**
 * A one-shot latch: an event that happens once, and that any number of fibers may wait for.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A thread that has waited, or has found the latch {@link #isReleased released}, sees all that was
 *       written before {@link #release}.
 *   <li>When the call of a waiter that gave up returns, the list does not hold that waiter.
 * </ol>
 *
 * <p>Lock order: its lock, the Java monitor, is the innermost one. It is held for a few instructions.
 */
public class Latch {
    private volatile boolean released;

    // Guarded by its lock; null while no fiber waits.
    private List<Waiter> waiters;

    /** True once the event has happened. */
    public final boolean isReleased() {
        return released;
    }

    /** Releases the latch and wakes all waiters. True for the first call only. */
    public final boolean release() {
        List<Waiter> woken;
        Simulated.switchPoint();
        synchronized (this) {
            if (released) {
                return false;
            }
            released = true;
            woken = waiters;
            waiters = null;
        }
        if (woken != null) {
            // No iterator and no lambda: this has to wake all waiters even when memory has run out.
            for (int i = 0; i < woken.size(); i++) {
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

    /** Adds a waiter; false if the latch is released already, so that it need not wait. */
    public final synchronized boolean add(Waiter waiter) {
        if (released) {
            return false;
        }
        if (waiters == null) {
            waiters = new ArrayList<>(1);
        }
        waiters.add(waiter);
        return true;
    }

    /** Removes a waiter that gave up. */
    public final synchronized void remove(Waiter waiter) {
        if (waiters != null) {
            waiters.remove(waiter);
        }
    }
}
