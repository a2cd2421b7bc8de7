package magnetar.kernel.sim;

import java.util.ArrayList;
import java.util.List;

/**
 * A node of a simulation: an environment with tables, ids, random numbers and a clock of its own.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Each start of a node is another environment, with another number and creation.
 *   <li>After its crash none of its fibers runs, and none of its timers expires. Its threads stay where they were, and
 *       are collected with the run.
 *   <li>Its clock is a function of the clock of the simulation, and grows with it.
 * </ol>
 */
final class SimNode extends SimEnvironment implements Spoken {
    private static final long PARTS = 1_000_000;

    final String name;
    final int number;
    final long offset; // in nanoseconds
    final long drift; // in parts of a million

    // Only accessed on the carrier, or by the fiber that it runs.
    final List<NodeCall> calls = new ArrayList<>(); // those that have not ended
    final List<Runnable> onCrash = new ArrayList<>();
    private boolean gone;

    SimNode(Simulation simulation, String name, int number, long offset, long drift) {
        super(simulation, simulation.config.seed * 0x9E3779B97F4A7C15L + number);
        this.name = name;
        this.number = number;
        this.offset = offset;
        this.drift = drift;
    }

    @Override
    String prefix() {
        return name + "/";
    }

    @Override
    boolean isGone() {
        return gone;
    }

    /** Called first in a crash. */
    void vanish() {
        gone = true;
    }

    @Override
    protected void start(Thread thread) {
        if (!startUntracked(thread)) {
            super.start(thread);
        }
    }

    @Override
    public long creation() {
        return NODES_CREATION + number;
    }

    @Override
    public long nanoTime() {
        return at(simulation.now);
    }

    private long at(long now) {
        return offset + now + now / PARTS * drift + now % PARTS * drift / PARTS;
    }

    @Override
    long nextNanos() {
        long due = super.nextNanos();
        if (due == Long.MAX_VALUE) {
            return due;
        }
        long now = Math.max(0, (long) ((due - offset) / (1 + (double) drift / PARTS)) - PARTS);
        for (long step = PARTS; step > 0; step /= 10) { // the estimate is early; approach the instant from below
            while (at(now + step) < due) {
                now += step;
            }
        }
        return at(now) < due ? now + 1 : now;
    }

    @Override
    public String toString() {
        return "node " + name;
    }
}
