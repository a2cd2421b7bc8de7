package magnetar.kernel.sim;

import java.util.List;

/**
 * A place in a run where there is something to choose.
 *
 * @param fiber the fiber that has run
 * @param index how many such places it had come to
 * @param mayStay true if it can go on
 * @param runnable the other fibers that can run, in the order in which they became runnable
 * @param faults what else may be done here
 */
record Point(SimFiber fiber, int index, boolean mayStay, List<SimFiber> runnable, Faults faults) {
    Choice run(SimFiber other) {
        return new Choice(fiber.number, index, mayStay ? Choice.What.PREEMPT : Choice.What.PREFER, other.number);
    }

    Choice fault(Choice.What what, int target) {
        return new Choice(fiber.number, index, what, target);
    }

    SimFiber runnable(int number) {
        for (SimFiber f : runnable) {
            if (f.number == number) {
                return f;
            }
        }
        return null;
    }

    /** What may go wrong here. */
    record Faults(List<SimFiber> victims, boolean message, boolean timers, boolean rest) {
        static final Faults NONE = new Faults(List.of(), false, false, false);
    }
}
