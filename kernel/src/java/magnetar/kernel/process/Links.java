package magnetar.kernel.process;

import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.sched.Fault;

/**
 * The processes that one is linked to.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Links between processes of this node that are not dead are symmetric. Both sides change under both locks,
 *       which {@link #underBoth} takes, the lower pid's first. {@link Connection} says what is true of links with
 *       processes of other nodes.
 *   <li>A dead process has no links and gets none. Its death notice has taken them.
 * </ol>
 *
 * <p>Lock order: locks of processes by ascending pid.
 */
public final class Links extends SmallSet<Pid> {
    // Linked at start-up, while there is memory for it.
    private static final Step<Boolean> JOIN = Links::join;
    private static final Step<Boolean> PART = Links::part;

    private Links() {}

    /** An operation on two processes under both locks. */
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

    /**
     * Links the current process with another one. False if the other is dead and the current one does not
     * trap exits.
     */
    public static boolean link(LocalProcess me, Pid other) {
        Fiber.current().enter();
        InFlight.deliver(other);
        LocalProcess p = ProcessTable.live(other);
        if (p == me || isLinked(me, other) || p != null && underBoth(p, me, JOIN)) {
            return true;
        }
        if (p == null && other.node() != 0) {
            Remote.link(me, other, Peers.of(other));
            return true;
        }
        me.fiber().check(); // this process may have been killed itself
        InFlight.deliver(other, me.pid());
        return me.trapsNoproc(other);
    }

    /** True if there is a link. If the other is dead by now, its exit signal has still to come. */
    public static boolean isLinked(LocalProcess me, Pid other) {
        synchronized (me) {
            return contains(me.links, other);
        }
    }

    /** Removes a link, if there is one. From now on the death of the other has no effect here. */
    public static void unlink(LocalProcess me, Pid other) {
        Fiber.current().enter();
        InFlight.deliver(other);
        LocalProcess p = ProcessTable.live(other);
        if (p == null || p == me) {
            Simulated.switchPoint();
            if (!Remote.unlink(me, other)) {
                remove(me, other);
            }
        } else {
            underBoth(me, p, PART);
        }
    }

    /** Removes one side of a link, because the other process is dead. */
    static void remove(LocalProcess me, Pid other) {
        synchronized (me) {
            remove(me.links, other);
        }
    }

    /** Under both locks. */
    private static boolean join(LocalProcess a, LocalProcess b) {
        if ((a.isDead() || b.isDead()) && !Fault.LINK_IGNORES_DEATH.isSeeded()) {
            return false;
        }
        tie(a, b);
        return true;
    }

    /** Under both locks: adds each process to the other's links. A dead process gets none. */
    static void tie(LocalProcess a, LocalProcess b) {
        list(a, b.pid());
        if (!Fault.LINK_HAS_ONE_SIDE.isSeeded()) {
            list(b, a.pid());
        }
    }

    /** Under the lock of the process: adds the other to its links, unless it is dead. */
    static void list(LocalProcess process, Pid other) {
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
