package magnetar.kernel.sim;

import java.util.List;
import java.util.concurrent.Callable;
import magnetar.kernel.fiber.Simulated;

/** The nodes of the simulation that the current fiber is in. */
public final class Nodes {
    private Nodes() {}

    private static Simulation simulation() {
        return ((SimEnvironment) Simulated.environment()).simulation;
    }

    /** The name of the node that the current fiber is on, or null. */
    public static String current() {
        return Simulated.environment() instanceof SimNode n ? n.name : null;
    }

    /** What names on the node of this creation begin with, as "a/"; empty for a creation of no node of this simulation. */
    public static String prefix(long creation) {
        return Simulation.isInside() ? simulation().prefix(creation) : "";
    }

    /** The names of the nodes that run, in the order of their starts. */
    public static List<String> names() {
        return simulation().nodes().stream().map(n -> n.name).toList();
    }

    /**
     * Starts a node.
     *
     * @param name a name that no other running node has
     * @param offset by how many nanoseconds its clock is ahead
     * @param drift by how many parts of a million its clock is faster
     */
    public static void start(String name, long offset, long drift) {
        simulation().start(name, offset, drift);
    }

    /** True if a node of this name was started, which may have crashed. */
    public static boolean isKnown(String name) {
        return simulation().lastOf(name) != null;
    }

    /** Crashes the node of this name, if it runs, and starts another one with its clock. */
    public static void restart(String name) {
        simulation().restart(name);
    }

    /** Calls the function on a fiber of the node, which runs, and waits for its end. */
    public static NodeCall call(String name, Callable<?> function) throws InterruptedException {
        NodeCall call = simulation().begin(simulation().node(name), function);
        call.await();
        return call;
    }

    /** Crashes the node, which runs. Does not return on a fiber of that node. */
    public static void crash(String name) {
        simulation().crash(simulation().node(name));
    }
}
