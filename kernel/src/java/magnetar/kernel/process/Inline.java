package magnetar.kernel.process;

import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Spin;

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
 *   <li>Who finds it lent to another fiber, and without messages, stays away for some tens of microseconds at most, holding no lock, and then sends as to any
 *       other. A message would end the lending, and all callers would have to wait for the process's own fiber, until that comes to rest again.
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

    /** True if it rests and lends itself. */
    public static boolean rests(Pid to) {
        LocalProcess p = to.process();
        return p != null && p.offer() != null;
    }

    /** True if it is worth asking: the process rests and lends itself, or may do so in a moment. */
    public static boolean isOffered(Pid to) {
        LocalProcess p = to.process();
        return p != null && p.maySoonBeLent();
    }

    /**
     * Serves the request as the process at rest, here and now, or as soon as it has served another caller so. False, and nothing was done, if the process does
     * not rest, has messages, or does not take this request in that time; or if the caller has to exit, is in a shield, belongs to a scope, is no virtual
     * thread, or serves others already, {@value magnetar.kernel.fiber.Fiber#MOST_LENT} inside each other.
     */
    public static boolean serve(LocalProcess caller, Pid to, Object request, long nanos) {
        LocalProcess p = to.process();
        Fiber host = Fiber.current();
        host.enter();
        if (p == null || to.creation() != host.world().creation() || !mayLend(host, caller)) {
            return false;
        }
        for (int failures = 0; Spin.mayStay(failures); failures = Spin.backOff(failures)) {
            AtRest rest = p.offer();
            if (rest != null && isServed(p, rest, host, request, nanos)) {
                return true;
            }
            if (rest != null && rest == p.offer() || !p.maySoonBeLent() || p.fiber() == host) {
                return false;
            }
        }
        return false;
    }

    // False too if somebody else has taken it meanwhile.
    private static boolean isServed(LocalProcess p, AtRest rest, Fiber host, Object request, long nanos) {
        return p.isUnwatched() && ((Lendable) rest.next).takes(request, nanos) && p.lendTo(host, rest, request);
    }

    // A fork has the scope for its home, with a deadline and forks of its own: none of that is the server's.
    private static boolean mayLend(Fiber host, LocalProcess caller) {
        return host.mayBeLent() && caller.isUnwatched() && caller.isAlive() && Thread.currentThread().isVirtual()
                && (host.home() == null || host.home() instanceof LocalProcess);
    }
}
