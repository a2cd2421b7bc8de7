package magnetar.kernel.process;

import java.util.ArrayDeque;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.park.Waiter;

/**
 * The fibers that wait until a place has room: a bounded mailbox, or the stream to another node.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A fiber is in the queue only if the place was full when it came. Both are decided under the lock of the
 *       place, so a thread that makes room afterwards finds it there.
 *   <li>A thread that makes room calls {@link #wake} after it. A fiber that was woken, and does not use the room,
 *       wakes the next one.
 * </ol>
 *
 * <p>Lock order: the lock of the place is the innermost one, and no waiter is woken under it.
 */
public final class Room {
    /** Wakes all that wait, as long as there is room. */
    public static final int ALL = Integer.MAX_VALUE;

    private final Place place;

    // Guarded by the lock of the place. Null until a fiber waits.
    private ArrayDeque<Waiter> waiting;

    /** What may be full. Its lock is its Java monitor. */
    public interface Place {
        /** True while fibers have to wait for room. Called under the lock. */
        boolean isFull();
    }

    /** The waits for room in the place. */
    public Room(Place place) {
        this.place = place;
    }

    /** Waits as the current fiber until there is room. */
    public void await(WaitReason reason, Object on) throws InterruptedException {
        Fiber fiber = Fiber.current();
        fiber.enter();
        while (isFull()) {
            awaitOnce(fiber, reason, on);
        }
    }

    private boolean isFull() {
        Simulated.switchPoint();
        synchronized (place) {
            return place.isFull();
        }
    }

    /** Waits until the fiber is woken because there was room, or returns at once if there is room now. */
    void awaitOnce(Fiber fiber, WaitReason reason, Object on) throws InterruptedException {
        Parked waiter = new Parked(fiber, reason, on);
        boolean over = false;
        try {
            if (enlist(waiter)) {
                waiter.await();
            }
            fiber.check();
            over = true;
        } finally {
            if (!over) {
                giveUp(waiter);
            }
        }
    }

    /** Queues the waiter; false if there is room, so that it need not wait. */
    boolean enlist(Waiter waiter) {
        Simulated.switchPoint();
        synchronized (place) {
            if (!place.isFull()) {
                return false;
            }
            waiting = waiting == null ? new ArrayDeque<>() : waiting;
            return waiting.add(waiter);
        }
    }

    /** Takes the waiter out of the queue, and wakes the next one in its place if there is room. */
    void giveUp(Waiter waiter) {
        synchronized (place) {
            if (waiting != null) {
                waiting.remove(waiter);
            }
        }
        wake(1);
    }

    /** Wakes at most so many fibers, as long as there is room. Allocates nothing: memory may have run out. */
    public void wake(int most) {
        for (int left = most; left > 0; left--) {
            Waiter w = next();
            if (w == null) {
                return;
            }
            w.complete(place, null);
        }
    }

    private Waiter next() {
        synchronized (place) {
            while (waiting != null && !waiting.isEmpty() && !place.isFull()) {
                Waiter w = waiting.poll();
                if (w.claim()) {
                    return w;
                }
            }
            return null;
        }
    }

    /** Under the lock: how many fibers wait. */
    int size() {
        return waiting == null ? 0 : waiting.size();
    }
}
