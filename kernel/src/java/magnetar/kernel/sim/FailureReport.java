package magnetar.kernel.sim;

import java.util.List;
import java.util.Set;

/**
 * The failure report of a simulation: why it was stopped, as a sentence with the line. The reason is a
 * deadlock, or an event that no seed decides.
 *
 * <p>Invariant: the first problem counts. Any thread may set it.
 */
final class FailureReport {
    private static final String REAL_TIME = ": Thread/sleep, a deref with a time-out, or another timed wait of the JDK. "
            + "In a simulation time is virtual: use the library's sleep or timeout.";

    private final Simulation simulation;

    private volatile Run.Problem problem; // written under the monitor
    private volatile SimFiber woken; // by another thread

    FailureReport(Simulation simulation) {
        this.simulation = simulation;
    }

    /** Called on the carrier, at the end. */
    Run.Problem problem() {
        String line = woken == null ? null : woken.line();
        return line == null ? problem : new Run.Problem(problem.kind(), problem.sentence() + " It waited at " + line + ".", problem.waiting());
    }

    boolean isKnown() {
        return problem != null;
    }

    synchronized void stop(String kind, String sentence) {
        if (problem == null) {
            problem = new Run.Problem(kind, sentence, simulation.isHere() ? simulation.waiting() : List.of());
        }
    }

    /**
     * Not stored in {@code problem}, which the carrier may not read in this case, because it never returns.
     */
    Run.Problem stuck(SimFiber f) {
        String line = f == null ? null : f.line();
        return new Run.Problem("STUCK", (f == null ? "The simulation" : f.toString()) + " ran for " + simulation.config.patienceMillis
                + " ms without doing anything that the simulator sees, at " + line
                + ": a loop without channel, message or sleep, or a call that blocks the thread. Its thread is left behind. Replace the call by a stub, or raise :patience-ms.", List.of());
    }

    void endless(SimFiber f) {
        stop("ENDLESS", "The simulation did not end within " + simulation.config.maxSteps + " steps; " + f + where(f.line())
                + ". If it does not loop for ever, raise :max-steps.");
    }

    void timedWait(SimFiber f) {
        stop("TIMED_WAIT", f + " waits for real time" + where(f.line()) + REAL_TIME);
    }

    /**
     * Called if the fiber was parked and became runnable before the carrier could check it, although no other
     * fiber has run.
     */
    void wokenAtOnce(SimFiber f) {
        if (f.isAt(Set.of("sleep", "parkNanos", "parkUntil"))) {
            timedWait(f);
        } else {
            foreignWake(f, "a thread");
        }
    }

    void monitor(SimFiber f) {
        stop("MONITOR", f + " waits for a monitor of the JDK at " + f.line() + ", which another fiber holds while it waits. "
                + "The JVM chooses who enters it next, not the seed, so do not wait while a fiber holds it.");
    }

    private static String where(String line) {
        return line == null ? "" : ", at " + line;
    }

    /** Called if another thread has woken the fiber. */
    void foreign(SimFiber f) {
        Thread t = Thread.currentThread();
        if (t.getName().startsWith("VirtualThread-unparker")) {
            woken = f;
            stop("TIMED_WAIT", f + " waits for real time" + REAL_TIME);
            return;
        }
        foreignWake(f, "the thread \"" + t.getName() + "\"" + where(SourceLines.ofProgram(t.getStackTrace())));
    }

    private void foreignWake(SimFiber f, String who) {
        woken = f;
        stop("FOREIGN_THREAD", f + " is woken by " + who + ", which is not part of the simulation: start it as a fiber (fork, go, spawn) inside of it.");
    }

    /** Called if the fiber has woken a thread that is not part of the simulation. */
    void wokeForeign(SimFiber f, Thread woken) {
        stop("FOREIGN_THREAD", f + where(f.line()) + ", meets the thread \"" + woken.getName() + "\"" + where(SourceLines.ofProgram(woken.getStackTrace()))
                + ", which is not part of the simulation: start it as a fiber (fork, go, spawn) inside of it.");
    }

    /** Called if the fiber has woken a fiber or a process of another node. */
    void shared(SimFiber f, String other) {
        stop("SHARED", f + where(f.line()) + ", meets " + other + ", which is on another node: nodes share no channel, process or scope, as "
                + "two machines share none. Let on-node run the function on that node, or send bytes through a network.");
    }

    /** Called if the fiber's wait for a monitor has ended, although no fiber of the simulation could run. */
    void notified(SimFiber f) {
        stop("FOREIGN_THREAD", f + where(f.line()) + ", waited for a monitor, for its notify or for the end of a thread, and a thread that is not part of the "
                + "simulation has let it go on: start it as a fiber (fork, go, spawn) inside of it.");
    }

    /** Called if the current fiber did something that cannot be simulated. Returns the sentence. */
    String refuse(String what) {
        String sentence = what + where(SourceLines.ofProgram(Thread.currentThread().getStackTrace()))
                + ": it runs on a thread that no seed orders. Start a fiber instead, with fork, go or spawn.";
        stop("FOREIGN_THREAD", sentence);
        return sentence;
    }
}
