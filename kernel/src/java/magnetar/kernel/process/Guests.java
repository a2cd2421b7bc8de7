package magnetar.kernel.process;

import java.util.Set;
import java.util.function.Consumer;

/**
 * The processes that run for a while on the threads of their callers.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A guest is in this list from before its first instruction until after its last one.
 *   <li>A guest is in one part only, which its pid determines. The lock of that part guards the neighbours of
 *       the guest.
 * </ol>
 *
 * <p>Rejected: a concurrent set. Its iterators allocate, and {@link FullMemory} must not. It also allocates an
 * entry for each guest.
 *
 * <p>Lock order: the lock of a part is the innermost one.
 */
final class Guests {
    private static final Guests[] PARTS = new Guests[16];

    static {
        for (int i = 0; i < PARTS.length; i++) {
            PARTS[i] = new Guests();
        }
    }

    // Guarded by this.
    private Spawn.OnThread first;

    private Guests() {}

    private static Guests partOf(Spawn.OnThread guest) {
        return PARTS[guest.pid().hashCode() & (PARTS.length - 1)];
    }

    static void add(Spawn.OnThread guest) {
        partOf(guest).link(guest);
    }

    /** Removes a guest that is in the list. */
    static void remove(Spawn.OnThread guest) {
        partOf(guest).unlink(guest);
    }

    /** Removes these processes, as far as they are in the list. */
    static void removeAll(Set<LocalProcess> some) {
        for (Guests part : PARTS) {
            part.unlinkAll(some);
        }
    }

    /** Passes each of them to the visitor, which must be short and not call this class. Allocates nothing. */
    static void each(Consumer<LocalProcess> visit) {
        for (Guests part : PARTS) {
            part.eachHere(visit);
        }
    }

    private synchronized void link(Spawn.OnThread g) {
        g.after = first;
        if (first != null) {
            first.before = g;
        }
        first = g;
    }

    private synchronized void unlink(Spawn.OnThread g) {
        if (g.before == null) {
            first = g.after;
        } else {
            g.before.after = g.after;
        }
        if (g.after != null) {
            g.after.before = g.before;
        }
        g.before = null;
        g.after = null;
    }

    private synchronized void unlinkAll(Set<LocalProcess> some) {
        for (Spawn.OnThread g = first; g != null; ) {
            Spawn.OnThread next = g.after;
            if (some.contains(g)) {
                unlink(g);
            }
            g = next;
        }
    }

    private synchronized void eachHere(Consumer<LocalProcess> visit) {
        for (Spawn.OnThread g = first; g != null; g = g.after) {
            visit.accept(g);
        }
    }
}
