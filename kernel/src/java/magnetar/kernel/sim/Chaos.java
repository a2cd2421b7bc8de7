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
 * What befalls the processes of a simulation from outside: they are killed, their messages are lost, their signals take long. Kills, and signals that
 * come late, are done by a fiber that belongs to nobody.
 *
 * <p>Invariant: that fiber kills at the step that was chosen: nobody is chosen while it lets a signal arrive.
 */
final class Chaos implements Runnable {
    private static final long MILLI = 1_000_000;

    private final Simulation simulation;
    private final Post post = new Post();

    // Only accessed on the carrier, or by the fiber that it runs.
    private LocalProcess victim;
    private boolean delivers;

    Chaos(Simulation simulation) {
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

    /** False while it has something to do that must not be disturbed. */
    boolean isFree() {
        return victim == null;
    }

    private boolean mayKill(SimFiber me) {
        return me.number != Simulation.CHAOS && victim == null && !delivers && simulation.config.may(What.KILL);
    }

    /** The processes at rest, which no fiber runs, that may be killed at a switch point of this fiber. */
    List<LocalProcess> resting(SimFiber me) {
        if (!mayKill(me)) {
            return List.of();
        }
        return ProcessTable.atRest().stream().filter(p -> p.pid().label() != null && simulation.config.victims.test(p.pid().label())).toList();
    }

    /** Those that may be killed at a switch point of this fiber. */
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
        return simulation.fibers().get(Simulation.CHAOS);
    }

    private void wake() {
        LockSupport.unpark(fiber().thread);
    }

    // --- messages that are lost --------------------------------------------------------------------------------------

    boolean loses(Object to, Object message) {
        Choice c = simulation.fault(What.LOSE, Place.MESSAGE);
        if (c != null) {
            simulation.log("loses message", to, message);
        }
        return c != null;
    }

    // --- signals that take long --------------------------------------------------------------------------------------

    /** False if signals arrive as they are sent. */
    boolean delaysSignals() {
        return !simulation.ending && simulation.config.may(What.HOLD);
    }

    /** True if everything that was sent has arrived. */
    boolean hasDelivered() {
        return post.isEmpty();
    }

    /** True if the signal is to arrive later; always, if another one from the same sender to the same receiver is on its way. */
    boolean delays(Object from, Object to, Object what, Runnable arrival) {
        Choice c = simulation.fault(What.HOLD, Place.SIGNAL);
        boolean isBehind = post.isUsed(from, to) && !Fault.SIGNAL_OVERTAKES_DELAYED_ONE.isPlanted();
        if (c == null && !isBehind) {
            return false;
        }
        long due = post.take(from, to, simulation.now + (c == null ? 0 : c.target() * MILLI), arrival);
        simulation.log("delays", to, what);
        if (due <= simulation.now) {
            wake();
        } else {
            Wheel.of(simulation.world).add(new Timer(due) {
                @Override
                protected void expire() {
                    wake();
                }
            });
        }
        return true;
    }

    /** Lets everything arrive that is on its way from one to the other. */
    void letArrive(Object from, Object to) {
        for (Post.Letter l = post.first(from, to); l != null; l = post.first(from, to)) {
            if (!post.deliver(l)) {
                simulation.letOthersRun(); // it arrives on another fiber, which is in the middle of it
            }
        }
    }

    private void deliver() {
        for (Post.Letter l = post.next(simulation.now); l != null && !simulation.ending; l = post.next(simulation.now)) {
            delivers = true;
            post.deliver(l);
            delivers = false;
        }
    }
}
