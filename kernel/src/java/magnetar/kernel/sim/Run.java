package magnetar.kernel.sim;

import java.util.List;

/**
 * The result of a simulation.
 *
 * @param value what the body returned
 * @param error what it threw, or null
 * @param problem what stopped the simulation, or null
 * @param choices the choices that differ from the default, in order
 * @param events the event log, if one was kept
 * @param failures what fibers threw without catching it
 * @param left the fibers, go blocks too, that had not ended when the body had and nothing could run any more
 * @param fullest the process that held the most messages, if the log was kept or a bound was asked for
 * @param steps the number of switch points reached
 * @param nanos the virtual time that has passed
 */
public record Run(Object value, Throwable error, Problem problem, List<Choice> choices, List<Event> events, List<Failure> failures,
        List<Waiting> left, Fullest fullest, long steps, long nanos) {

    /**
     * What stopped a simulation.
     *
     * @param kind DEADLOCK, TIMED_WAIT, MONITOR, FOREIGN_THREAD, SHARED, ENDLESS, STUCK, INTERRUPTED or BROKEN
     * @param sentence what is wrong and what to do
     * @param waiting the fibers that have not ended
     */
    public record Problem(String kind, String sentence, List<Waiting> waiting) {}

    /** What a fiber threw. */
    public record Failure(String site, Throwable error) {}

    /** The process with the fullest mailbox, by its name, and how many messages that mailbox held. */
    public record Fullest(String process, int messages) {}

    /**
     * A fiber that has not ended.
     *
     * @param number its number
     * @param name the line that started it, or its name
     * @param waits what it waits for, in words
     * @param line its present line of the program, or null
     * @param calls the number of its calls that were neither answered nor given up
     * @param owned false if it has no owner: a go block, which would be collected
     */
    public record Waiting(int number, String name, String waits, String line, int calls, boolean owned) {}
}
