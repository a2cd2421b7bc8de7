package magnetar.kernel.process;

import magnetar.kernel.park.Fiber;

/**
 * A call of a process at rest that is served on the fiber of the caller, as that process.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The fiber has taken the process's waiter out of the empty mailbox and is its only owner, until it puts another one there or starts a
 *       fiber. So messages and signals that come meanwhile meet a running process, and wait or act as ever.
 *   <li>The process is a region inside those of the caller. Those are masked, and nobody interrupts for their sake: who kills the caller kills it,
 *       and the piece of work is done to its end, with what it leaves behind. Whoever dooms the process interrupts its work, and nothing else.
 *   <li>All that is not an answer at once is done by a fiber of the process's own.
 * </ol>
 *
 * <p>Source: the direct hand-off of L4's calls, where the callee runs on the time of the caller. Refused: to run a process that is not at rest
 * (the caller would wait for a lock that it cannot be killed out of), and to withdraw an interrupt that was sent to the caller (a JDK operation
 * of the handler could have met it before).
 *
 * <p>Lock order: as in {@link LocalProcess}.
 */
public final class Inline {
    private Inline() {}

    /** True if it is worth asking: the process rests, and lends itself. */
    public static boolean isOffered(Pid to) {
        LocalProcess p = to.process();
        AtRest rest = p == null || p.fiber() != null ? null : p.atRest(); // who asks one that works leaves its mailbox to those who send
        return rest != null && rest.next instanceof Lendable;
    }

    /**
     * Serves the request as the process at rest, here and now. False, and nothing was done, if the process does not rest, has messages, or does
     * not take this request in that time; or if the caller has to exit, is in a shield, belongs to a scope, is no virtual thread, or serves others
     * already, {@value magnetar.kernel.park.Fiber#MOST_LENT} inside each other.
     */
    public static boolean serve(LocalProcess caller, Pid to, Object request, long nanos) {
        LocalProcess p = to.process();
        AtRest rest = p == null ? null : p.atRest();
        Fiber host = Fiber.current();
        host.enter();
        return rest != null && rest.next instanceof Lendable l && mayLend(host, caller) && p.isUnwatched()
                && to.creation() == host.world().creation() && l.takes(request, nanos) && p.lendTo(host, rest, request);
    }

    // A fork has the scope for its home, with a deadline and forks of its own: none of that is the server's.
    private static boolean mayLend(Fiber host, LocalProcess caller) {
        return caller.isUnwatched() && caller.isAlive() && Thread.currentThread().isVirtual()
                && (host.home() == null || host.home() instanceof LocalProcess);
    }
}
