package magnetar.kernel.sim;

/**
 * One choice of a simulation that differs from the default. A schedule is the list of these; the program
 * determines all else.
 *
 * @param fiber the number of the fiber that had run last
 * @param point how many choice points of this kind that fiber had reached: switch points, ends and parks,
 *     messages or signals
 * @param what the kind of choice
 * @param target the number of the fiber, of the process, of the node, or of milliseconds; -1 without a target
 */
public record Choice(int fiber, int point, What what, int target) {
    /** What can be chosen. */
    public enum What {
        /** Another fiber runs, although this one could continue. */
        PREEMPT,
        /** Where this fiber parks or has ended: not the first of the runnable fibers runs. */
        PREFER,
        /** A process is killed. */
        KILL,
        /** A passivated process is killed. The target is its serial number. */
        KILL_PASSIVATED,
        /** A node crashes. The target is the number of its start. */
        CRASH,
        /** The way from one node to another is cut, for so many milliseconds. */
        CUT,
        /** A member of a network leaves the view of another one, although it can be reached. */
        FLAP,
        /** A message is lost. */
        LOSE,
        /**
         * A signal is delayed by so many milliseconds; 0 only lets others run first. Later signals of the
         * pair wait behind it.
         */
        HOLD,
        /** Time passes up to the next timer, although there are runnable fibers. */
        HURRY,
        /** More time passes than until the next timer. */
        DELAY
    }

    /**
     * The kinds of choice points. Each is counted separately, so that removing a choice from a schedule moves
     * few of the others.
     */
    enum Place {
        SWITCH,
        REST,
        MESSAGE,
        SIGNAL,
        IDLE,
        FRAME,
        SUSPICION
    }

    private Place place() {
        return switch (what) {
            case PREEMPT, KILL, KILL_PASSIVATED, CRASH, HURRY -> Place.SWITCH;
            case PREFER -> Place.REST;
            case LOSE -> Place.MESSAGE;
            case HOLD -> Place.SIGNAL;
            case DELAY -> Place.IDLE;
            case CUT -> Place.FRAME;
            case FLAP -> Place.SUSPICION;
        };
    }

    long key() {
        return key(place(), fiber, point);
    }

    static long key(Place place, int fiber, int point) {
        return ((long) place.ordinal() << 28 | fiber) << 32 | point;
    }
}
