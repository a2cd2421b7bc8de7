package magnetar.kernel.process;

import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.sched.Fault;

/**
 * The processes that one is linked to.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Links are symmetric, except for a side that is dead: both sides change under both monitors, which {@link #underBoth} takes, the one of the lower pid first.
 *   <li>A process that is dead has no links and gets none: its death has taken them along to tell them.
 * </ol>
 */
public final class Links extends Bag<Pid> {
    // Linked while there is memory for it.
    private static final Step<Boolean> JOIN = Links::join;
    private static final Step<Boolean> PART = Links::part;

    private Links() {}

    /** What is done to two processes under both monitors. */
    interface Step<T> {
        T run(LocalProcess a, LocalProcess b);
    }

    static <T> T underBoth(LocalProcess a, LocalProcess b, Step<T> step) {
        boolean inOrder = a.pid().compareTo(b.pid()) < 0;
        Simulated.switchPoint();
        synchronized (inOrder ? a : b) {
            synchronized (inOrder ? b : a) {
                return step.run(a, b);
            }
        }
    }

    /** Links the current process, this one, and another; false if the other is dead and this one does not trap exits. */
    public static boolean link(LocalProcess me, Pid other) {
        Fiber.current().enter();
        Ways.settle(other);
        LocalProcess p = ProcessTable.live(other);
        if (p == me || isLinked(me, other) || p != null && underBoth(p, me, JOIN)) {
            return true;
        }
        me.fiber().check(); // it may have been killed itself
        Ways.settle(other, me.pid());
        return me.trapsNoproc(other);
    }

    /** True if there is a link already: its end has still to come, also if the other is dead by now. */
    public static boolean isLinked(LocalProcess me, Pid other) {
        synchronized (me) {
            return contains(me.links, other);
        }
    }

    /** Undoes a link, if there is one: from now on the death of the other does nothing here. */
    public static void unlink(LocalProcess me, Pid other) {
        Fiber.current().enter();
        Ways.settle(other);
        LocalProcess p = ProcessTable.live(other);
        if (p == null || p == me) {
            Simulated.switchPoint();
            remove(me, other);
        } else {
            underBoth(me, p, PART);
        }
    }

    /** Takes one side away: the other is dead. */
    static void remove(LocalProcess me, Pid other) {
        synchronized (me) {
            remove(me.links, other);
        }
    }

    /** Under both monitors. */
    private static boolean join(LocalProcess a, LocalProcess b) {
        if ((a.isDead() || b.isDead()) && !Fault.LINK_IGNORES_DEATH.isPlanted()) {
            return false;
        }
        tie(a, b);
        return true;
    }

    /** Under both monitors: lists each with the other; a dead one lists none. */
    static void tie(LocalProcess a, LocalProcess b) {
        list(a, b.pid());
        if (!Fault.LINK_HAS_ONE_SIDE.isPlanted()) {
            list(b, a.pid());
        }
    }

    private static void list(LocalProcess process, Pid other) {
        if (process.isDead()) {
            return;
        }
        if (process.links == null) {
            process.links = new Links();
        }
        process.links.add(other);
    }

    private static Boolean part(LocalProcess a, LocalProcess b) {
        remove(a.links, b.pid());
        remove(b.links, a.pid());
        return true;
    }
}
