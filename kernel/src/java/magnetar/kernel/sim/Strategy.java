package magnetar.kernel.sim;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.sim.Choice.Place;

/**
 * A scheduler of simulations. Used for one run.
 *
 * <p>Three kinds. Uniform: at each switch point every runnable fiber is equally likely. Priorities: the
 * runnable fiber of the highest priority runs, and at a few random steps the running one becomes the lowest;
 * finds a defect of depth d in k steps of n fibers with a probability of at least 1/(n k^(d-1)). A given
 * schedule: at points that it does not mention, the default holds, which is no preemption, and first come
 * first served.
 *
 * <p>Source of the priorities: Burckhardt, Kothari, Musuvathi and Nagarakatte, ASPLOS 2010.
 */
public abstract class Strategy {
    private static final int LATEST = 20;
    private static final int LONGEST_CUT = 5000;

    /** The choice at this point, or null for the default. */
    abstract Choice decide(ChoicePoint point);

    /** Called when the fiber spins, and so asks to be passed over. */
    void yields(SimFiber fiber) {}

    /** Each runnable fiber is equally likely. */
    public static Strategy uniform(long seed, Config config) {
        return new Uniform(seed, config);
    }

    /** Priorities that change at {@code depth - 1} of the first so many steps. */
    public static Strategy priorities(long seed, Config config, int depth, int steps) {
        return new Priorities(seed, config, depth, steps);
    }

    /** Repeats these choices, where they are possible. */
    public static Replay replay(List<Choice> choices) {
        return new Replay(choices);
    }

    /** Draws the faults. */
    private abstract static class Drawn extends Strategy {
        final Random random;
        private final Random faults;
        private final Config config;
        private int injected;

        Drawn(long seed, Config config) {
            this.random = new Random(seed * 0x9E3779B97F4A7C15L + 1);
            this.faults = new Random(seed * 0xD1B54A32D192ED03L + 2);
            this.config = config;
        }

        @Override
        final Choice decide(ChoicePoint p) {
            Choice fault = injected < config.maxFaults && faults.nextDouble() < config.faultRate ? fault(p) : null;
            if (fault != null) {
                injected++;
                return fault;
            }
            return p.runnable().isEmpty() ? null : schedule(p);
        }

        private Choice fault(ChoicePoint p) {
            List<Choice> possible = new ArrayList<>();
            if (p.place() == Place.MESSAGE) {
                possible.add(p.fault(Choice.What.LOSE, -1));
            }
            if (p.place() == Place.SIGNAL) {
                possible.add(p.fault(Choice.What.HOLD, faults.nextBoolean() ? 0 : 1 + faults.nextInt(LATEST)));
            }
            if (p.place() == Place.IDLE) {
                possible.add(p.fault(Choice.What.DELAY, 1 + faults.nextInt(LATEST)));
            }
            if (p.place() == Place.FRAME) {
                possible.add(p.fault(Choice.What.CUT, 1 + faults.nextInt(LONGEST_CUT)));
            }
            if (p.place() == Place.SUSPICION) {
                possible.add(p.fault(Choice.What.FLAP, -1));
            }
            if (p.timers()) {
                possible.add(p.fault(Choice.What.HURRY, -1));
            }
            for (SimFiber v : p.victims()) {
                possible.add(p.fault(Choice.What.KILL, v.number));
            }
            for (LocalProcess r : p.passivated()) {
                possible.add(p.fault(Choice.What.KILL_PASSIVATED, (int) r.pid().serial()));
            }
            for (SimNode n : p.nodes()) {
                possible.add(p.fault(Choice.What.CRASH, n.number));
            }
            return possible.isEmpty() ? null : possible.get(faults.nextInt(possible.size()));
        }

        abstract Choice schedule(ChoicePoint p);
    }

    private static final class Uniform extends Drawn {
        Uniform(long seed, Config config) {
            super(seed, config);
        }

        @Override
        Choice schedule(ChoicePoint p) {
            int n = p.runnable().size();
            int drawn = random.nextInt(p.mayStay() ? n + 1 : n);
            return drawn == n || drawn == 0 && !p.mayStay() ? null : p.run(p.runnable().get(drawn));
        }
    }

    private static final class Priorities extends Drawn {
        private final Map<SimFiber, Long> priorities = new HashMap<>(); // looked up only, never iterated
        private final TreeSet<Integer> changes = new TreeSet<>();
        private long lowest;
        private int step;

        Priorities(long seed, Config config, int depth, int steps) {
            super(seed, config);
            for (int i = 1; i < depth; i++) {
                changes.add(1 + random.nextInt(Math.max(1, steps)));
            }
        }

        private long of(SimFiber f) {
            return priorities.computeIfAbsent(f, x -> (long) random.nextInt(Integer.MAX_VALUE));
        }

        @Override
        void yields(SimFiber fiber) {
            priorities.put(fiber, --lowest);
        }

        @Override
        Choice schedule(ChoicePoint p) {
            if (changes.contains(++step)) {
                yields(p.fiber());
            }
            SimFiber best = p.runnable().getFirst();
            for (SimFiber f : p.runnable()) {
                best = of(f) > of(best) ? f : best;
            }
            boolean stay = p.mayStay() && of(p.fiber()) >= of(best);
            return stay || !p.mayStay() && best == p.runnable().getFirst() ? null : p.run(best);
        }
    }

    /**
     * A given schedule. Records where it could have branched, so that a search over all schedules can
     * continue there.
     */
    public static final class Replay extends Strategy {
        private final Map<Long, Choice> choices = new HashMap<>();
        private int left;
        private final List<Choice> branches = new ArrayList<>();

        Replay(List<Choice> choices) {
            choices.forEach(c -> this.choices.put(c.key(), c));
            left = choices.size();
        }

    /** The other possible choices after the last one of the schedule, in order. */
        public List<Choice> branches() {
            return branches;
        }

        @Override
        Choice decide(ChoicePoint p) {
            Choice c = choices.get(Choice.key(p.place(), p.fiber().number, p.index()));
            if (c != null && isPossible(c, p)) {
                left--;
                return c;
            }
            if (left == 0) {
                branch(p);
            }
            return null;
        }

        private void branch(ChoicePoint p) {
            List<SimFiber> others = p.runnable();
            others.subList(p.mayStay() || others.isEmpty() ? 0 : 1, others.size()).forEach(f -> branches.add(p.run(f)));
            p.victims().forEach(v -> branches.add(p.fault(Choice.What.KILL, v.number)));
            p.passivated().forEach(r -> branches.add(p.fault(Choice.What.KILL_PASSIVATED, (int) r.pid().serial())));
            p.nodes().forEach(n -> branches.add(p.fault(Choice.What.CRASH, n.number)));
            if (p.place() == Place.MESSAGE) {
                branches.add(p.fault(Choice.What.LOSE, -1));
            }
            if (p.place() == Place.SIGNAL) {
                branches.add(p.fault(Choice.What.HOLD, 0));
                branches.add(p.fault(Choice.What.HOLD, 1));
            }
            if (p.place() == Place.IDLE) {
                branches.add(p.fault(Choice.What.DELAY, 1));
                branches.add(p.fault(Choice.What.DELAY, LATEST));
            }
            if (p.place() == Place.FRAME) {
                branches.add(p.fault(Choice.What.CUT, 1));
                branches.add(p.fault(Choice.What.CUT, LONGEST_CUT));
            }
            if (p.place() == Place.SUSPICION) {
                branches.add(p.fault(Choice.What.FLAP, -1));
            }
            if (p.timers()) {
                branches.add(p.fault(Choice.What.HURRY, -1));
            }
        }

        private static boolean isPossible(Choice c, ChoicePoint p) {
            return switch (c.what()) {
                case PREEMPT, PREFER -> p.runnable(c.target()) != null;
                case KILL_PASSIVATED -> p.passivated(c.target()) != null;
                case KILL -> p.victims().stream().anyMatch(v -> v.number == c.target());
                case CRASH -> p.node(c.target()) != null;
                case LOSE, HOLD, DELAY, CUT, FLAP -> true;
                case HURRY -> p.timers();
            };
        }
    }
}
