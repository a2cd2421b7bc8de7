package magnetar.kernel.sim;

import java.util.List;

/**
 * How a simulation went.
 *
 * @param value what the body returned
 * @param error what it threw, or null
 * @param problem what stopped the simulation, or null
 * @param choices what was done that need not have been done, in order
 * @param events the log, if one was kept
 * @param failures what fibers threw that nobody caught
 * @param left the fibers that had not ended though the body had, and nothing could run any more; go blocks too
 * @param fullest the most messages that each process held, by its name, if the log was kept or a bound was asked for
 * @param steps how many switch points were reached
 * @param nanos how much virtual time has passed
 */
public record Run(Object value, Throwable error, Problem problem, List<Choice> choices, List<Event> events, List<Failure> failures,
        List<Waiting> left, Fullest fullest, long steps, long nanos) {

    /**
     * What stopped a simulation.
     *
     * @param kind DEADLOCK, TIMED_WAIT, MONITOR, FOREIGN_THREAD, ENDLESS, STUCK, INTERRUPTED or BROKEN
     * @param sentence what is wrong and what to do
     * @param waiting the fibers that have not ended
     */
    public record Problem(String kind, String sentence, List<Waiting> waiting) {}

    /** What a fiber threw. */
    public record Failure(String site, Throwable error) {}

    /** The process whose mailbox was the fullest, by its name, and how many messages that were. */
    public record Fullest(String process, int messages) {}

    /**
     * A fiber that has not ended.
     *
     * @param number its number
     * @param name the line that started it, or its name
     * @param waits what it waits for, in words
     * @param line the line of the program that it is at, or null
     * @param calls how many of its calls were neither answered nor given up
     * @param owned false if nobody owns it: a go block, which would be collected
     */
    public record Waiting(int number, String name, String waits, String line, int calls, boolean owned) {}
}
