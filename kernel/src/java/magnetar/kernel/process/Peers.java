package magnetar.kernel.process;

import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.PerEnvironment;

/**
 * The other nodes that this one knows, by name and creation, and its own name. Each simulated node has its own.
 *
 * <p>Invariants:
 * <ol>
 *   <li>At most one peer has the same name and creation. A peer is kept while it is connected, or while a pid leads to it.
 *   <li>A name has a number, which pids are ordered by, and no other name has it. It keeps the number while there is a
 *       peer of that name. The last {@value #MOST_UNUSED} names without a peer keep theirs too, for pids that were read
 *       from text.
 *   <li>What is kept of peers that were collected is dropped when the next one is added. Each costs a fixed time.
 * </ol>
 *
 * <p>A node that loses its name and gets one again is another node for the others, as in Erlang. Pids and references of
 * this node have its {@link #creation}, which does not change, and are told to others with its {@link #incarnation}. All users of
 * the name have the same incarnation, but one that takes it again, while others have kept it, has another one.
 */
public final class Peers {
    /** The name of a node that is not part of a cluster. */
    public static final String NO_NAME = "nonode@nohost";

    /** The user of the name that a cluster is. */
    public static final Object CLUSTER = "cluster";

    private static final PerEnvironment<Peers> PEERS = PerEnvironment.of(Peers::new);

    private static final int MOST_UNUSED = 1000;

    private final ConcurrentHashMap<Key, Held> known = new ConcurrentHashMap<>();
    private final ConcurrentHashMap<Integer, String> numbered = new ConcurrentHashMap<>();
    private final ReferenceQueue<Peer> collected = new ReferenceQueue<>();
    private final Set<Peer> connected = ConcurrentHashMap.newKeySet();
    private final List<Transport> dialers = new CopyOnWriteArrayList<>();

    // Guarded by its lock.
    private final Map<Object, Long> users = new HashMap<>(); // of the name: the incarnation of each
    private final Set<Object> formerUsers = Collections.newSetFromMap(new WeakHashMap<>()); // since it has had one all the time
    private final Map<String, Name> names = new HashMap<>();
    private final LinkedHashSet<String> unused = new LinkedHashSet<>(); // names without a peer, the oldest first
    private int lastNumber;

    // Written under its lock, read by any thread.
    private volatile String name = NO_NAME;
    private volatile long incarnation = creation();

    private record Key(String name, long creation) {}

    /** The number of a name, and how many peers of it are listed. */
    private static final class Name {
        private final int number;
        private int peers;

        Name(int number) {
            this.number = number;
        }
    }

    /** A peer that nothing else may keep. */
    private static final class Held extends WeakReference<Peer> {
        private final Key key;

        Held(Peer peer, Key key, ReferenceQueue<Peer> queue) {
            super(peer, queue);
            this.key = key;
        }
    }

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
     * Gives this node a name, or with null ends its use by this user. It has the name while there is a user. Changes
     * nothing and returns false if the node has another name already.
     *
     * @param user what uses the name, such as the class of a transport
     */
    public static boolean setName(String wanted, Object user) {
        Peers here = current();
        synchronized (here) {
            if (wanted == null) {
                here.release(user);
                return true;
            }
            if (!here.users.isEmpty() && !here.name.equals(wanted)) {
                return false;
            }
            here.users.computeIfAbsent(user, u -> here.formerUsers.contains(u) ? fresh() : here.incarnation);
            here.name = wanted;
            return true;
        }
    }

    /** The same, for {@link #CLUSTER}. */
    public static boolean setName(String wanted) {
        return setName(wanted, CLUSTER);
    }

    private void release(Object user) {
        if (users.remove(user) == null) {
            return;
        }
        formerUsers.add(user);
        if (users.isEmpty()) {
            formerUsers.clear();
            incarnation = fresh();
            name = NO_NAME;
        }
    }

    private static long fresh() {
        return Environment.current().seed() >>> 33; // 31 bits, as creations have
    }

    /** The creation of this node, which its pids and references have. */
    public static long creation() {
        return Refs.creation();
    }

    /** The creation that others know, since this node has its name. */
    public static long incarnation() {
        return current().incarnation;
    }

    /** The same, since this user has the name: another one each time, also if other users have kept the name meanwhile. */
    public static long incarnation(Object user) {
        Peers here = current();
        synchronized (here) {
            return here.users.getOrDefault(user, here.incarnation);
        }
    }

    // --- others ------------------------------------------------------------------------------------------------------

    /** The node of this name and creation. If it was not known, the transport leads to it. */
    public static Peer peer(String name, long creation, Transport transport) {
        Peers here = current();
        Key key = new Key(name, creation);
        Peer found = here.find(key);
        return found == null ? here.add(key, transport) : found;
    }

    private synchronized Peer add(Key key, Transport transport) {
        Peer found = find(key);
        if (found != null) {
            return found;
        }
        dropCollected();
        Name of = names.get(key.name);
        if (of == null) {
            of = new Name(nextNumber());
            numbered.put(of.number, key.name);
            names.put(key.name, of);
        }
        Peer made = new Peer(of.number, key.name, key.creation, transport);
        known.put(key, new Held(made, key, collected));
        of.peers++;
        unused.remove(key.name);
        return made;
    }

    private int nextNumber() {
        do {
            lastNumber = lastNumber == Integer.MAX_VALUE ? 1 : lastNumber + 1;
        } while (numbered.containsKey(lastNumber));
        return lastNumber;
    }

    private void dropCollected() {
        for (Reference<? extends Peer> gone = collected.poll(); gone != null; gone = collected.poll()) {
            Key key = ((Held) gone).key;
            known.remove(key, gone); // the node may be known again
            Name of = names.get(key.name);
            if (--of.peers == 0) {
                unused.add(key.name);
                dropUnused();
            }
        }
    }

    private void dropUnused() {
        if (unused.size() > MOST_UNUSED) {
            String oldest = unused.removeFirst();
            numbered.remove(names.remove(oldest).number);
        }
    }

    /** How many nodes and names it holds. */
    public static int size() {
        Peers here = current();
        return here.known.size() + here.numbered.size();
    }

    private Peer find(Key key) {
        Held held = known.get(key);
        return held == null ? null : held.get();
    }

    /** The node of a pid that is not of this node; null if it is not known. */
    static Peer of(Pid pid) {
        Peer p = pid.peer();
        if (p == null && pid.node() != 0) {
            Peers here = current();
            String named = here.numbered.get(pid.node());
            p = named == null ? null : here.find(new Key(named, pid.creation()));
            if (p != null) {
                pid.recognize(p);
            }
        }
        return p;
    }

    /** True if the pid is of a node of Erlang. */
    public static boolean isErlang(Pid pid) {
        Peer peer = of(pid);
        return peer != null && peer.isErlang();
    }

    /** What is written as the atom {@code undefined} for the node of Erlang that the pid is of. */
    public static Object undefined(Pid pid) {
        Peer peer = of(pid);
        return peer == null ? null : peer.undefined();
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

    // --- connecting --------------------------------------------------------------------------------------------------

    /** From now on names of nodes that are not connected lead to the transport, after those that were added before. */
    public static void addDialer(Transport t) {
        current().dialers.add(t);
    }

    /** Names lead to it no longer. */
    public static void removeDialer(Transport t) {
        current().dialers.remove(t);
    }

    /**
     * The connected node of this name, which a transport connects if need be; null if none can. A wait that is interrupted
     * without a cause ends, and the thread keeps the interrupt.
     */
    public static Peer reach(String name) {
        Peer found = connected(name);
        if (found != null || current().dialers.isEmpty()) {
            return found;
        }
        try {
            found = dial(name);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        Fiber.current().check();
        return found;
    }

    private static Peer dial(String name) throws InterruptedException {
        for (Transport t : current().dialers) {
            t.connect(name);
            Peer found = connected(name);
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    void keep(Peer peer) {
        connected.add(peer);
    }

    void release(Peer peer) {
        connected.remove(peer);
    }
}
