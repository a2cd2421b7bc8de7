package magnetar.kernel.sim;

import java.util.List;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.sim.Choice.Place;

/**
 * A place in a run where there is something to choose.
 *
 * @param fiber the fiber that has run
 * @param place what kind of place
 * @param index how many of this kind it had come to
 * @param runnable the other fibers that can run, in the order in which they became runnable
 * @param victims the fibers whose processes may be killed here
 * @param resting the processes at rest that may be killed here
 * @param timers true if time may pass here
 */
record Point(SimFiber fiber, Place place, int index, List<SimFiber> runnable, List<SimFiber> victims, List<LocalProcess> resting, boolean timers) {
    /** The next one of the fiber at such a place, without faults. */
    static Point at(SimFiber fiber, Place place, List<SimFiber> runnable) {
        return at(fiber, place, runnable, List.of(), List.of(), false);
    }

    static Point at(SimFiber fiber, Place place, List<SimFiber> runnable, List<SimFiber> victims, List<LocalProcess> resting, boolean timers) {
        return new Point(fiber, place, ++fiber.points[place.ordinal()], runnable, victims, resting, timers);
    }

    /** True if the fiber can go on. */
    boolean mayStay() {
        return place == Place.SWITCH;
    }

    Choice run(SimFiber other) {
        return new Choice(fiber.number, index, mayStay() ? Choice.What.PREEMPT : Choice.What.PREFER, other.number);
    }

    Choice fault(Choice.What what, int target) {
        return new Choice(fiber.number, index, what, target);
    }

    /** The process at rest of this serial number, or null. */
    LocalProcess resting(int serial) {
        for (LocalProcess p : resting) {
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
