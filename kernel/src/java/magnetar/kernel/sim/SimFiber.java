package magnetar.kernel.sim;

import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.park.Parked;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.process.Monitors;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.ProcessTable;
import magnetar.kernel.sched.Schedulers;

/**
 * A fiber of a simulation. It is the scheduler of its own virtual thread, so that a submission tells which
 * fiber can run.
 */
final class SimFiber implements Executor {
    final int number;
    final String name;
    final SimEnvironment environment;
    Thread thread;

    // Only accessed on the carrier, or by the fiber that it runs.
    final int[] points = new int[Choice.Place.values().length];
    Runnable task; // the continuation to run next, if it is runnable
    private Runnable own; // its continuation, which never changes
    boolean ended;
    boolean isOfProgram = true; // false for the simulator's own fibers

    SimFiber(SimEnvironment environment, int number, String name) {
        this.environment = environment;
        this.number = number;
        this.name = environment.prefix() + (name == null || name.isEmpty() ? "unnamed" : name);
    }

    /**
     * Called when its virtual thread can run. Also for a thread that its program has started, which inherits
     * the scheduler and is refused.
     */
    @Override
    public void execute(Runnable next) {
        own = own == null ? next : own;
        if (own == next) {
            environment.simulation.submit(this, next);
        } else {
            throw new RejectedExecutionException(Simulation.refuse("A virtual thread was started in a simulation"));
        }
    }

    Fiber fiber() {
        return thread.getUncaughtExceptionHandler() instanceof Fiber f ? f : null;
    }

    /** True if its node has crashed, so that it never runs again. */
    boolean isGone() {
        return environment.isGone();
    }

    /** False if it never runs again. Where the JVM lists its thread, it ends with the simulation. */
    boolean mayRun() {
        return !isGone() || environment.simulation.ending && !Schedulers.chosen().startsUntracked();
    }

    /** The live process that it was started for, or null. */
    LocalProcess process() {
        Fiber f = fiber();
        return f != null && f.home() instanceof LocalProcess p && p.fiber() == f && p.pid().isAlive() ? p : null;
    }

    /** True if it runs this process, or has run it. */
    boolean runs(Pid pid) {
        Fiber f = fiber();
        LocalProcess live = ProcessTable.live(pid);
        return f != null && (live != null && live.fiber() == f || f.home() instanceof LocalProcess p && p.pid() == pid);
    }

    int openCalls() {
        int n = 0;
        for (LocalProcess p : ProcessTable.all(environment)) {
            n += p.fiber() == fiber() ? Monitors.openCalls(p) : 0;
        }
        return n;
    }

    /**
     * Describes the fiber. If it is runnable its stack is not read, because the JVM would submit it again.
     */
    Run.Waiting waiting(boolean waits, Names names) {
        Fiber fiber = fiber();
        return new Run.Waiting(number, name, waits ? wait(names) : null, waits ? line() : null, openCalls(), fiber != null && fiber.isHeld());
    }

    /** What it waits for, in words. */
    private String wait(Names names) {
        Object blocker = LockSupport.getBlocker(thread);
        if (blocker instanceof Spoken) {
            return blocker.toString();
        }
        if (blocker instanceof Parked p) {
            return p.reason().words() + (p.on() == null ? "" : " " + names.of(p.on()));
        }
        return switch (thread.getState()) {
            case BLOCKED -> "a monitor";
            case TIMED_WAITING -> "time to pass, or something of the JDK";
            default -> blocker == null ? "something of the JDK" : "something of the JDK, " + blocker.getClass().getName();
        };
    }

    /** True if one of these methods of the JDK is on its stack. */
    boolean isAt(Set<String> methods) {
        return Arrays.stream(thread.getStackTrace()).anyMatch(f -> f.getClassName().startsWith("java.") && methods.contains(f.getMethodName()));
    }

    /** Its present line of the program, or null. */
    String line() {
        return SourceLines.ofProgram(thread.getStackTrace());
    }

    @Override
    public String toString() {
        return "#" + number + " " + name;
    }
}
