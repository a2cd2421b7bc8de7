package magnetar.kernel.sim;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.process.ProcessTable;
import magnetar.kernel.process.Send;
import magnetar.kernel.sched.Fault;
import magnetar.kernel.sim.Choice.Place;
import magnetar.kernel.sim.Choice.What;
import magnetar.kernel.time.Timer;
import magnetar.kernel.time.Wheel;

/**
 * The fault injector of a simulation, or of a node of it: it kills processes, loses messages and delays signals.
 * One of the simulator's own fibers does the kills and delivers the delayed signals, in the environment that they
 * belong to.
 *
 * <p>Invariant: that fiber kills at the chosen step. While it delivers a signal, no victim is chosen.
 */
final class FaultInjector implements Runnable {
    private static final long MILLI = 1_000_000;

    private final SimEnvironment environment;
    private final DelayedSignals delayed = new DelayedSignals();

    // Only accessed on the carrier, or by the fiber that it runs.
    private LocalProcess victim;
    private boolean delivers;

    FaultInjector(SimEnvironment environment) {
        this.environment = environment;
    }

    private Simulation simulation() {
        return environment.simulation;
    }

    @Override
    public void run() {
        while (!simulation().ending) {
            LockSupport.park(this);
            kill();
            deliver();
        }
    }

    // --- kills -------------------------------------------------------------------------------------------------------

    private void kill() {
        LocalProcess p = victim;
        victim = null;
        if (p != null) {
            Send.exit(p.pid(), simulation().config.kill);
        }
    }

    /** False while a kill is due that must not be disturbed. */
    boolean isFree() {
        return victim == null;
    }

    /** True while it delivers a signal. */
    boolean isDelivering() {
        return delivers;
    }

    /** The passivated processes of this environment, which have no fiber, that may be killed. */
    List<LocalProcess> passivated() {
        return ProcessTable.atRest().stream().filter(p -> p.pid().label() != null && simulation().config.victims.test(p.pid().label())).toList();
    }

    /** The fibers whose processes may be killed. */
    static List<SimFiber> victims(Simulation simulation) {
        List<SimFiber> possible = new ArrayList<>();
        for (SimFiber f : simulation.fibers()) {
            if (!f.ended && !f.isGone() && f.thread.getState() != Thread.State.NEW && f.process() != null && simulation.config.victims.test(f.name)) {
                possible.add(f);
            }
        }
        return possible;
    }

    void strike(LocalProcess target) {
        victim = target;
        simulation().log("kills", target.pid(), null);
        wake();
        simulation().leave(environment.injector);
    }

    private void wake() {
        LockSupport.unpark(environment.injector.thread);
    }

    // --- lost messages
    // -----------------------------------------------------------------------------------------------

    boolean loses(Object to, Object message) {
        Choice c = simulation().fault(What.LOSE, Place.MESSAGE);
        if (c != null) {
            simulation().log("loses message", to, message);
        }
        return c != null;
    }

    // --- delayed signals
    // ---------------------------------------------------------------------------------------------

    /** False if signals arrive when they are sent. */
    boolean delaysSignals() {
        return !simulation().ending && simulation().config.may(What.HOLD);
    }

    /** True if no delayed signal is left. */
    boolean hasDelivered() {
        return delayed.isEmpty();
    }

    /**
     * True if the signal will arrive later. Always true while an earlier signal of the same sender and
     * receiver is delayed.
     */
    boolean delays(Object from, Object to, Object what, Runnable arrival) {
        Choice c = simulation().fault(What.HOLD, Place.SIGNAL);
        boolean isBehind = delayed.isUsed(from, to) && !Fault.SIGNAL_OVERTAKES_DELAYED_ONE.isSeeded();
        if (c == null && !isBehind) {
            return false;
        }
        long now = environment.nanoTime();
        long due = delayed.take(from, to, now + (c == null ? 0 : c.target() * MILLI), arrival);
        simulation().log("delays", to, what);
        if (due <= now) {
            wake();
        } else {
            Wheel.of(environment).add(new Timer(due) {
                @Override
                protected void expire() {
                    wake();
                }
            });
        }
        return true;
    }

    /** Delivers every delayed signal from one to the other. */
    void deliverDelayed(Object from, Object to) {
        for (DelayedSignals.Signal l = delayed.first(from, to); l != null; l = delayed.first(from, to)) {
            if (!delayed.deliver(l)) {
                simulation().letOthersRun(); // another fiber is delivering it
            }
        }
    }

    private void deliver() {
        for (DelayedSignals.Signal l = delayed.next(environment.nanoTime()); l != null && !simulation().ending; l = delayed.next(environment.nanoTime())) {
            delivers = true;
            delayed.deliver(l);
            delivers = false;
        }
    }
}
