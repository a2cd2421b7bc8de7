package magnetar.kernel.process;

import java.lang.ref.WeakReference;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.PerEnvironment;

/**
 * The other nodes that this one knows, by name and creation, and its own name. Each simulated node has its own.
 *
 * <p>Invariant: at most one peer has the same name and creation. A peer is kept while it is connected, or while a
 * pid leads to it. A name keeps its number, which pids are ordered by.
 *
 * <p>A node that loses its name and gets one again is another node for the others, as in Erlang. Pids and references of
 * this node have its {@link #creation}, which does not change, and are told to others with its {@link #incarnation}.
 */
public final class Peers {
    /** The name of a node that is not part of a cluster. */
    public static final String NO_NAME = "nonode@nohost";

    private static final PerEnvironment<Peers> PEERS = PerEnvironment.of(Peers::new);

    private final ConcurrentHashMap<String, Integer> numbers = new ConcurrentHashMap<>();
    private final ConcurrentHashMap<Key, WeakReference<Peer>> known = new ConcurrentHashMap<>();
    private final Set<Peer> connected = ConcurrentHashMap.newKeySet();

    // Written under its lock, read by any thread.
    private volatile String name = NO_NAME;
    private volatile long incarnation = creation();

    private record Key(int number, long creation) {}

    private Peers() {}

    static Peers current() {
        return PEERS.current();
    }

    // --- this node ---------------------------------------------------------------------------------------------------

    /** The name of this node. */
    public static String name() {
        return current().name;
    }

    /**
     * Gives this node a name, or takes its name away if this is null. Changes nothing and returns false if the node has
     * another name already.
     */
    public static boolean setName(String wanted) {
        Peers here = current();
        synchronized (here) {
            if (wanted != null && !here.name.equals(NO_NAME) && !here.name.equals(wanted)) {
                return false;
            }
            if (wanted == null && !here.name.equals(NO_NAME)) {
                here.incarnation = Environment.current().seed() >>> 33; // 31 bits, as creations have
            }
            here.name = wanted == null ? NO_NAME : wanted;
            return true;
        }
    }

    /** The creation of this node, which its pids and references have. */
    public static long creation() {
        return Refs.creation();
    }

    /** The creation that others know, since this node has its name. */
    public static long incarnation() {
        return current().incarnation;
    }

    // --- others ------------------------------------------------------------------------------------------------------

    /** The node of this name and creation. If it was not known, the transport leads to it. */
    public static Peer peer(String name, long creation, Transport transport) {
        Peers here = current();
        Key key = new Key(here.number(name), creation);
        synchronized (here) {
            Peer found = here.find(key);
            if (found == null) {
                here.known.values().removeIf(held -> held.get() == null);
                found = new Peer(key.number, name, creation, transport);
                here.known.put(key, new WeakReference<>(found));
            }
            return found;
        }
    }

    private int number(String of) {
        Integer found = numbers.get(of);
        if (found != null) {
            return found;
        }
        synchronized (this) {
            return numbers.computeIfAbsent(of, n -> numbers.size() + 1);
        }
    }

    private Peer find(Key key) {
        WeakReference<Peer> held = known.get(key);
        return held == null ? null : held.get();
    }

    /** The connected node of this name, or null. */
    public static Peer connected(String name) {
        for (Peer p : current().connected) {
            if (p.name().equals(name)) {
                return p;
            }
        }
        return null;
    }

    /** The connected nodes, ordered by name. */
    public static List<Peer> connected() {
        return current().connected.stream().sorted(Comparator.comparing(Peer::name)).toList();
    }

    /** The node of a pid that is not of this node; null if it is not known. */
    static Peer of(Pid pid) {
        Peer p = pid.peer();
        if (p == null && pid.node() != 0) {
            p = current().find(new Key(pid.node(), pid.creation()));
            if (p != null) {
                pid.recognize(p);
            }
        }
        return p;
    }

    void keep(Peer peer) {
        connected.add(peer);
    }

    void release(Peer peer) {
        connected.remove(peer);
    }
}
