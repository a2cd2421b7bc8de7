package magnetar.kernel.process;

import java.util.Set;
import java.util.function.Consumer;

/**
 * The passivated processes: alive, idle and without a fiber. This list keeps them reachable, so that a send
 * to the pid finds them even if no other object refers to them.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A process that is alive is in this list or in the list of {@link Guests}, or its fiber is in the list of
 *       fibers. While a process is passivated or activated, it is in this list, and its fiber in the list of fibers.
 *   <li>A process is in one part only, which its pid determines. The lock of that part guards the
 *       neighbours of its waiter.
 * </ol>
 *
 * <p>Rejected: a concurrent set, which costs 40 bytes for each process. A list through their
 * waiters costs 8, and nothing for a process that has a fiber.
 *
 * <p>Lock order: the lock of a part is the innermost one.
 */
final class Passivated {
    private static final Passivated[] PARTS = new Passivated[16];

    static {
        for (int i = 0; i < PARTS.length; i++) {
            PARTS[i] = new Passivated();
        }
    }

    // Guarded by this.
    private PassivatedWaiter first;

    private Passivated() {}

    private static Passivated partOf(PassivatedWaiter waiter) {
        return PARTS[waiter.process().pid().hashCode() & (PARTS.length - 1)];
    }

    static void add(PassivatedWaiter waiter) {
        partOf(waiter).link(waiter);
    }

    static void remove(PassivatedWaiter waiter) {
        partOf(waiter).unlink(waiter);
    }

    /** Removes these processes, as far as they are in the list. */
    static void removeAll(Set<LocalProcess> some) {
        for (Passivated part : PARTS) {
            part.unlinkAll(some);
        }
    }

    /** Passes each of them to the visitor, which must be short and not call this class. Allocates nothing. */
    static void each(Consumer<LocalProcess> visit) {
        for (Passivated part : PARTS) {
            part.eachHere(visit);
        }
    }

    private synchronized void link(PassivatedWaiter w) {
        w.listed = true;
        w.after = first;
        if (first != null) {
            first.before = w;
        }
        first = w;
    }

    private synchronized void unlink(PassivatedWaiter w) {
        if (!w.listed) {
            return;
        }
        w.listed = false;
        if (w.before == null) {
            first = w.after;
        } else {
            w.before.after = w.after;
        }
        if (w.after != null) {
            w.after.before = w.before;
        }
        w.before = null;
        w.after = null;
    }

    private synchronized void unlinkAll(Set<LocalProcess> some) {
        for (PassivatedWaiter w = first; w != null; ) {
            PassivatedWaiter next = w.after;
            if (some.contains(w.process())) {
                unlink(w);
            }
            w = next;
        }
    }

    private synchronized void eachHere(Consumer<LocalProcess> visit) {
        for (PassivatedWaiter w = first; w != null; w = w.after) {
            visit.accept(w.process());
        }
    }
}
