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
 * The fault injector of a simulation: it kills processes, loses messages and delays signals. One of the
 * simulator's own fibers does the kills and delivers the delayed signals.
 *
 * <p>Invariant: that fiber kills at the chosen step. While it delivers a signal, no victim is chosen.
 */
final class FaultInjector implements Runnable {
    private static final long MILLI = 1_000_000;

    private final Simulation simulation;
    private final DelayedSignals delayed = new DelayedSignals();

    // Only accessed on the carrier, or by the fiber that it runs.
    private LocalProcess victim;
    private boolean delivers;

    FaultInjector(Simulation simulation) {
        this.simulation = simulation;
    }

    @Override
    public void run() {
        while (!simulation.ending) {
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
            Send.exit(p.pid(), simulation.config.kill);
        }
    }

    /** False while a kill is due that must not be disturbed. */
    boolean isFree() {
        return victim == null;
    }

    private boolean mayKill(SimFiber me) {
        return me.number != Simulation.FAULTS && victim == null && !delivers && simulation.config.may(What.KILL);
    }

    /** The passivated processes, which have no fiber, that may be killed at a switch point of this fiber. */
    List<LocalProcess> passivated(SimFiber me) {
        if (!mayKill(me)) {
            return List.of();
        }
        return ProcessTable.atRest().stream().filter(p -> p.pid().label() != null && simulation.config.victims.test(p.pid().label())).toList();
    }

    /** The fibers whose processes may be killed at a switch point of this fiber. */
    List<SimFiber> victims(SimFiber me) {
        if (!mayKill(me)) {
            return List.of();
        }
        List<SimFiber> possible = new ArrayList<>();
        for (SimFiber f : simulation.fibers()) {
            if (!f.ended && f.thread.getState() != Thread.State.NEW && f.process() != null && simulation.config.victims.test(f.name)) {
                possible.add(f);
            }
        }
        return possible;
    }

    void strike(LocalProcess target) {
        victim = target;
        simulation.log("kills", target.pid(), null);
        wake();
        simulation.leave(fiber());
    }

    private SimFiber fiber() {
        return simulation.fibers().get(Simulation.FAULTS);
    }

    private void wake() {
        LockSupport.unpark(fiber().thread);
    }

    // --- lost messages
    // -----------------------------------------------------------------------------------------------

    boolean loses(Object to, Object message) {
        Choice c = simulation.fault(What.LOSE, Place.MESSAGE);
        if (c != null) {
            simulation.log("loses message", to, message);
        }
        return c != null;
    }

    // --- delayed signals
    // ---------------------------------------------------------------------------------------------

    /** False if signals arrive when they are sent. */
    boolean delaysSignals() {
        return !simulation.ending && simulation.config.may(What.HOLD);
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
        Choice c = simulation.fault(What.HOLD, Place.SIGNAL);
        boolean isBehind = delayed.isUsed(from, to) && !Fault.SIGNAL_OVERTAKES_DELAYED_ONE.isSeeded();
        if (c == null && !isBehind) {
            return false;
        }
        long due = delayed.take(from, to, simulation.now + (c == null ? 0 : c.target() * MILLI), arrival);
        simulation.log("delays", to, what);
        if (due <= simulation.now) {
            wake();
        } else {
            Wheel.of(simulation.environment).add(new Timer(due) {
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
                simulation.letOthersRun(); // another fiber is delivering it
            }
        }
    }

    private void deliver() {
        for (DelayedSignals.Signal l = delayed.next(simulation.now); l != null && !simulation.ending; l = delayed.next(simulation.now)) {
            delivers = true;
            delayed.deliver(l);
            delivers = false;
        }
    }
}
