package magnetar.kernel.process;

import java.util.function.Consumer;

/**
 * The passivated processes: alive, idle and without a fiber. This list keeps them reachable, so that a send
 * to the pid finds them even if no other object refers to them.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A process that is alive is in this list, or its fiber is in the list of fibers; in both while it
 *       changes over.
 *   <li>A process is in one part only, which its pid determines. The lock of that part guards its two
 *       neighbours.
 * </ol>
 *
 * <p>Rejected: a concurrent set, which costs 40 bytes for each process. A list through the processes
 * themselves costs 12.
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
    private LocalProcess first;

    private Passivated() {}

    private static Passivated partOf(LocalProcess process) {
        return PARTS[process.pid().hashCode() & (PARTS.length - 1)];
    }

    static void add(LocalProcess process) {
        partOf(process).link(process);
    }

    static void remove(LocalProcess process) {
        partOf(process).unlink(process);
    }

    /** Passes each of them to the visitor, which must be short and not call this class. Allocates nothing. */
    static void each(Consumer<LocalProcess> visit) {
        for (Passivated part : PARTS) {
            part.eachHere(visit);
        }
    }

    private synchronized void link(LocalProcess p) {
        if (p.inPassivatedList) {
            throw new AssertionError(p + " is at rest twice");
        }
        p.inPassivatedList = true;
        p.nextPassivated = first;
        if (first != null) {
            first.previousPassivated = p;
        }
        first = p;
    }

    private synchronized void unlink(LocalProcess p) {
        if (!p.inPassivatedList) {
            return;
        }
        p.inPassivatedList = false;
        if (p.previousPassivated == null) {
            first = p.nextPassivated;
        } else {
            p.previousPassivated.nextPassivated = p.nextPassivated;
        }
        if (p.nextPassivated != null) {
            p.nextPassivated.previousPassivated = p.previousPassivated;
        }
        p.previousPassivated = null;
        p.nextPassivated = null;
    }

    private synchronized void eachHere(Consumer<LocalProcess> visit) {
        for (LocalProcess p = first; p != null; p = p.nextPassivated) {
            visit.accept(p);
        }
    }
}
