package magnetar.kernel.sim;

/**
 * A line of the log of a simulation.
 *
 * @param step how many switch points had been reached
 * @param nanos the virtual time
 * @param fiber the number of the fiber that did it
 * @param what what happened
 * @param on the object it happened to, by a name that is the same in each run; null if there is none
 * @param value the value or the reason, as text; null if there is none
 */
public record Event(long step, long nanos, int fiber, String what, String on, String value) {
    @Override
    public String toString() {
        return step + " " + nanos / 1000 + "us #" + fiber + " " + what + (on == null ? "" : " " + on) + (value == null ? "" : ": " + value);
    }
}
