package magnetar.kernel.sim;

/**
 * A line of the event log of a simulation.
 *
 * @param step how many switch points had been reached
 * @param nanos the virtual time
 * @param fiber the number of the fiber that caused it
 * @param what what happened
 * @param on the object it happened to, by a name that is the same in each run; null without an object
 * @param value the value or the reason, as text; null without either
 */
public record Event(long step, long nanos, int fiber, String what, String on, String value) {
    @Override
    public String toString() {
        return step + " " + nanos / 1000 + "us #" + fiber + " " + what + (on == null ? "" : " " + on) + (value == null ? "" : ": " + value);
    }
}
