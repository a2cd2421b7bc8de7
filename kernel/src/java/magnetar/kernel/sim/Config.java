package magnetar.kernel.sim;

import java.util.EnumSet;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;

/** The settings of a simulation. They may be changed until it runs. */
public final class Config {
    /** The seed of the environment's ids and random numbers. */
    public long seed;
    /** The most switch points that may be reached. */
    public long maxSteps = 1_000_000;
    /** How long, in real time, a fiber may run without reaching a switch point. */
    public long patienceMillis = 10_000;
    /**
     * How long, in real time, to wait at a deadlock: another thread that then wakes a fiber is reported
     * instead.
     */
    public int graceMillis = 50;
    /** True to keep a log. */
    public boolean logs;
    /** Values as text, the same in each run. */
    public Function<Object, String> text = String::valueOf;
    /** The probability of a fault at each point. */
    public double faultRate;
    /** The most faults. */
    public int maxFaults = Integer.MAX_VALUE;
    /** The kinds of faults. */
    public Set<Choice.What> faults = EnumSet.noneOf(Choice.What.class);
    /** The labels of the processes that may be killed, and the names of the nodes that may crash. */
    public Predicate<String> victims = name -> true;
    /** The exit reason of kills. */
    public Object kill;

    /** The defaults, without faults. */
    public Config() {}

    boolean may(Choice.What what) {
        return faults.contains(what);
    }
}
