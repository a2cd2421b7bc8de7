package magnetar.kernel.sim;

/**
 * What a simulation did that it need not have done. A schedule is the list of these: all else follows from the program.
 *
 * @param fiber the number of the fiber that had run last
 * @param point how often it had come to a place where there is something to choose
 * @param what what was done
 * @param target the number of the fiber concerned; -1 if there is none
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
        /** A message is lost. */
        LOSE,
        /** Time passes up to the next timer, though there are runnable fibers. */
        HURRY,
        /** More time passes than up to the next timer. */
        DELAY
    }

    long key() {
        return key(fiber, point);
    }

    static long key(int fiber, int point) {
        return (long) fiber << 32 | point;
    }
}
