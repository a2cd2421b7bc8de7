package magnetar.kernel.sim;

import java.util.List;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.sim.Choice.Place;

/**
 * A choice point: a place in a run where the strategy may choose.
 *
 * @param fiber the fiber that has run
 * @param place the kind of choice point
 * @param index how many of this kind the fiber has reached
 * @param runnable the other fibers that can run, in the order in which they became runnable
 * @param victims the fibers whose processes may be killed here
 * @param passivated the passivated processes that may be killed here
 * @param nodes the nodes that may crash here
 * @param timers true if time may pass here
 */
record ChoicePoint(SimFiber fiber, Place place, int index, List<SimFiber> runnable, List<SimFiber> victims, List<LocalProcess> passivated, List<SimNode> nodes,
        boolean timers) {
    /** The next choice point of this kind of the fiber, without faults. */
    static ChoicePoint at(SimFiber fiber, Place place, List<SimFiber> runnable) {
        return at(fiber, place, runnable, List.of(), List.of(), List.of(), false);
    }

    static ChoicePoint at(SimFiber fiber, Place place, List<SimFiber> runnable, List<SimFiber> victims, List<LocalProcess> passivated, List<SimNode> nodes,
            boolean timers) {
        return new ChoicePoint(fiber, place, ++fiber.points[place.ordinal()], runnable, victims, passivated, nodes, timers);
    }

    /** True if nothing can be chosen here. */
    boolean isEmpty() {
        return runnable.isEmpty() && victims.isEmpty() && passivated.isEmpty() && nodes.isEmpty();
    }

    /** The node of this start, or null. */
    SimNode node(int number) {
        for (SimNode n : nodes) {
            if (n.number == number) {
                return n;
            }
        }
        return null;
    }

    /** True if the fiber can continue. */
    boolean mayStay() {
        return place == Place.SWITCH;
    }

    Choice run(SimFiber other) {
        return new Choice(fiber.number, index, mayStay() ? Choice.What.PREEMPT : Choice.What.PREFER, other.number);
    }

    Choice fault(Choice.What what, int target) {
        return new Choice(fiber.number, index, what, target);
    }

    /** The passivated process with this serial number, or null. */
    LocalProcess passivated(int serial) {
        for (LocalProcess p : passivated) {
            if ((int) p.pid().serial() == serial) {
                return p;
            }
        }
        return null;
    }

    SimFiber runnable(int number) {
        for (SimFiber f : runnable) {
            if (f.number == number) {
                return f;
            }
        }
        return null;
    }
}
