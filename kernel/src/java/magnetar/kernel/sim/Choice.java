package magnetar.kernel.sim;

/**
 * What a simulation did that it need not have done. A schedule is the list of these: all else follows from the program.
 *
 * @param fiber the number of the fiber that had run last
 * @param point how often it had come to a place of this kind: a switch point, an end or a park, a message or a signal that it sends
 * @param what what was done
 * @param target the number of the fiber concerned, of the process, or of milliseconds; -1 if there is none
 */
public record Choice(int fiber, int point, What what, int target) {
    /** What can be chosen. */
    public enum What {
        /** Another fiber runs, though this one could have gone on. */
        PREEMPT,
        /** Another than the first of the runnable fibers runs, where this one waits or has ended. */
        PREFER,
        /** A process is killed. */
        KILL,
        /** A process at rest is killed, by its serial number. */
        KILL_AT_REST,
        /** A message is lost. */
        LOSE,
        /** A signal arrives so many milliseconds later than it was sent, or with 0 when others had the chance to run; those behind it wait. */
        HOLD,
        /** Time passes up to the next timer, though there are runnable fibers. */
        HURRY,
        /** More time passes than up to the next timer. */
        DELAY
    }

    /** The kinds of places; each is counted for itself, so that what is left out of a schedule moves little of the rest. */
    enum Place {
        SWITCH,
        REST,
        MESSAGE,
        SIGNAL,
        IDLE
    }

    private Place place() {
        return switch (what) {
            case PREEMPT, KILL, KILL_AT_REST, HURRY -> Place.SWITCH;
            case PREFER -> Place.REST;
            case LOSE -> Place.MESSAGE;
            case HOLD -> Place.SIGNAL;
            case DELAY -> Place.IDLE;
        };
    }

    long key() {
        return key(place(), fiber, point);
    }

    static long key(Place place, int fiber, int point) {
        return ((long) place.ordinal() << 28 | fiber) << 32 | point;
    }
}
