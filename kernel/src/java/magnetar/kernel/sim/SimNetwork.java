package magnetar.kernel.sim;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.network.Network;
import magnetar.kernel.sim.Choice.Place;
import magnetar.kernel.sim.Choice.What;

/**
 * A network of the nodes of a simulation: latency, cuts, slow links and views, as the seed decides.
 *
 * <p>Each direction between two nodes is a way of its own, which can be cut or slow. What a member believes of
 * another one is a {@link SimPeer}. Members do not agree on views: a view may come late, or in another order than at
 * another member.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Frames of a way stay in order. While it is cut they are held, and go on after it is healed, unless a view has
 *       changed meanwhile.
 *   <li>A member calls its events on a fiber of its own, on its own node.
 *   <li>Only accessed by the fiber that the carrier runs.
 * </ol>
 *
 * <p>Rejected: views that a coordinator decides, as in JGroups. They hide what the interface allows, and a program
 * that relies on them would pass here.
 */
public final class SimNetwork {
    private static final long MILLI = 1_000_000;

    /** From one node to another, by their names. Restarted nodes keep their ways. */
    private record Way(String from, String to) {}

    final Simulation simulation;
    private final long leastLatency; // nanoseconds
    private final long mostLatency;
    private final long detector; // how long a member that is silent stays in a view
    private final int window; // in bytes
    private final List<SimMember> members = new ArrayList<>(); // those that have joined and are still there, the oldest first
    private final Set<Way> cuts = new HashSet<>(); // looked up only, as the others
    private final Map<Way, Integer> faults = new HashMap<>(); // how many injected cuts
    private final Map<Way, Long> speeds = new HashMap<>(); // bytes in a millisecond
    private boolean faultless;
    private long lastId;

    private SimNetwork(Simulation simulation, long leastLatency, long mostLatency, long detector, int window) {
        this.simulation = simulation;
        this.leastLatency = leastLatency;
        this.mostLatency = mostLatency;
        this.detector = detector;
        this.window = window;
    }

    /**
     * Makes a network in the simulation of the current fiber. Times are in milliseconds.
     *
     * @param leastLatency the shortest time that a frame takes
     * @param mostLatency the longest
     * @param detector how long a member that is silent stays in a view, at least
     * @param window how many bytes may be under way from one member to another
     */
    public static SimNetwork make(long leastLatency, long mostLatency, long detector, int window) {
        Simulation here = ((SimEnvironment) Simulated.environment()).simulation;
        return new SimNetwork(here, leastLatency * MILLI, mostLatency * MILLI, detector * MILLI, window);
    }

    /** True if it belongs to the simulation of the current fiber. */
    public boolean isHere() {
        return Simulated.environment() instanceof SimEnvironment here && here.simulation == simulation;
    }

    /** The network as the node sees it, which runs. It will join with this name. */
    public Network endpoint(String node, String name) {
        return new SimMember(this, simulation.node(node), name);
    }

    /** Cuts the ways from each of the first nodes to each of the others. */
    public void cut(List<String> from, List<String> to) {
        each(from, to, w -> {
            if (cuts.add(w)) {
                changed("is cut", w);
            }
        });
    }

    /** Undoes cuts of these ways, also injected ones. */
    public void heal(List<String> from, List<String> to) {
        each(from, to, w -> {
            if (cuts.remove(w) | faults.remove(w) != null) {
                changed("is healed", w);
            }
        });
    }

    /** Lets the strategy inject no more faults. Cuts that it has injected go on. */
    public void endFaults() {
        faultless = true;
    }

    /** Limits these ways to so many bytes in a millisecond; 0 for no limit. */
    public void slow(List<String> from, List<String> to, long speed) {
        each(from, to, w -> {
            speeds.put(w, speed);
            simulation.log(speed == 0 ? "is fast" : "is slow", text(w), speed);
        });
    }

    /** The names of all nodes that were started, also of crashed ones. */
    public List<String> nodes() {
        return simulation.started().stream().map(n -> n.name).distinct().toList();
    }

    private interface Act {
        void on(Way way);
    }

    private static void each(List<String> from, List<String> to, Act act) {
        for (String f : from) {
            for (String t : to) {
                if (!f.equals(t)) {
                    act.on(new Way(f, t));
                }
            }
        }
    }

    private static String text(Way w) {
        return "way " + w.from + " to " + w.to;
    }

    private void changed(String what, Way w) {
        simulation.log(what, text(w), null);
        boolean cut = isCut(w);
        for (SimMember m : members) {
            m.wayChanged(w.from, w.to, cut);
        }
    }

    private boolean isCut(Way w) {
        return cuts.contains(w) || faults.getOrDefault(w, 0) > 0;
    }

    // --- for members -------------------------------------------------------------------------------------------------

    boolean isCut(SimMember from, SimMember to) {
        return isCut(new Way(from.node.name, to.node.name));
    }

    /** How long the bytes occupy the way, in nanoseconds. */
    long occupied(SimMember from, SimMember to, int bytes) {
        long speed = speeds.getOrDefault(new Way(from.node.name, to.node.name), 0L);
        return speed == 0 ? 0 : bytes * MILLI / speed;
    }

    long leastLatency() {
        return leastLatency;
    }

    long mostLatency() {
        return mostLatency;
    }

    long detector() {
        return detector;
    }

    int window() {
        return window;
    }

    long nextId() {
        return ++lastId;
    }

    List<SimMember> members() {
        return members;
    }

    /** Where faults may strike: a frame is sent. */
    void reachFrame(SimMember from, SimMember to) {
        if (from == to || faultless) {
            return;
        }
        Choice cut = simulation.fault(What.CUT, Place.FRAME);
        if (cut != null) {
            cutFor(new Way(from.node.name, to.node.name), cut.target());
        }
        Choice flap = simulation.fault(What.FLAP, Place.SUSPICION);
        if (flap != null) {
            from.suspect(to);
        }
    }

    private void cutFor(Way w, int millis) {
        faults.merge(w, 1, Integer::sum);
        changed("is cut", w);
        simulation.at(simulation.now + millis * MILLI, () -> {
            if (faults.containsKey(w)) { // otherwise it was healed
                faults.computeIfPresent(w, (k, n) -> n == 1 ? null : n - 1);
                changed("is healed", w);
            }
        });
    }
}
