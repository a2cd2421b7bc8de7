package magnetar.kernel.sim;

import java.util.EnumSet;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;

/** How a simulation is run. All fields may be set until it is. */
public final class Config {
    /** Seeds ids and random numbers of the world. */
    public long seed;
    /** How many switch points may be reached. */
    public long maxSteps = 1_000_000;
    /** How long, in real time, a fiber may run without reaching one. */
    public long patienceMillis = 10_000;
    /** How long, in real time, a deadlock may take to turn out to be the work of another thread. */
    public int graceMillis = 50;
    /** True to keep a log. */
    public boolean logs;
    /** Values as text, the same in each run. */
    public Function<Object, String> text = String::valueOf;
    /** The probability of a fault at each point. */
    public double faultRate;
    /** How many faults there may be. */
    public int maxFaults = Integer.MAX_VALUE;
    /** Which kinds. */
    public Set<Choice.What> faults = EnumSet.noneOf(Choice.What.class);
    /** Which processes may be killed, by what they are called. */
    public Predicate<String> victims = name -> true;
    /** The reason that kills. */
    public Object kill;

    /** The plain way. */
    public Config() {}

    boolean may(Choice.What what) {
        return faults.contains(what);
    }
}
