package magnetar.kernel.sim;

import java.util.List;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.fiber.Cause;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;

/**
 * Ends the fibers that a simulation has left, as far as they can be ended. Runs on the carrier, once the
 * result is known.
 *
 * <p>The fibers of a node that has crashed do not run any more. Where the JVM does not list their threads, these are
 * dropped and collected. Elsewhere they are ended here like all others, since they would stay for ever.
 */
final class TearDown {
    private static final int JUMPS = 100;

    private final Simulation simulation;
    private final Object kill;

    TearDown(Simulation simulation) {
        this.simulation = simulation;
        this.kill = simulation.config.kill;
    }

    void run() {
        List.copyOf(simulation.fibers()).forEach(this::kill);
        for (int n = 0; n < JUMPS && (simulation.isAnyRunnable() || isAnyLeft() && simulation.passTime()); n++) {
            simulation.runAll();
        }
        List.copyOf(simulation.fibers()).forEach(this::drop);
    }

    private boolean isAnyLeft() {
        return simulation.fibers().stream().anyMatch(f -> !f.ended && !isDropped(f) && f.isOfProgram);
    }

    private static boolean isDropped(SimFiber f) {
        return !f.mayRun();
    }

    private void kill(SimFiber f) {
        Fiber fiber = f.fiber();
        if (f.isGone() && !isDropped(f)) {
            simulation.resume(f);
        }
        if (!f.ended && fiber != null && !isDropped(f)) {
            fiber.cancel(new Cause.Kill(kill));
        }
        if (!f.isOfProgram && !isDropped(f)) {
            LockSupport.unpark(f.thread);
        }
    }

    private void drop(SimFiber f) {
        Fiber fiber = f.fiber();
        if (!f.ended && fiber != null) {
            Fibers.discard(fiber);
        }
    }
}
