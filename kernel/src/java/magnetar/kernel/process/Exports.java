package magnetar.kernel.process;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import magnetar.kernel.fiber.PerEnvironment;
import magnetar.kernel.fiber.Simulated;

/**
 * The pids and references of this node that were written for other nodes, so that they are found when they come back. A
 * transport calls {@link #pid(Pid)} and {@link #ref(Ref)} before it writes one, and reads one with
 * {@link #pid(long, long)} and {@link #ref(long, long, Pid, boolean)}.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A live process whose pid was written is in the table by its number, and a dead one is not. Both change
 *       under the lock of the process. So a pid that comes back needs no search, and one that is not in the table
 *       is dead.
 *   <li>An alias that was written and is open is found by its id, as the same object: its state decides whether a
 *       message is delivered. Closed ones are dropped when the number of references has doubled, so that closing
 *       one costs nothing.
 * </ol>
 *
 * <p>Rejected: a table of all processes by number, which each start would pay for. So a pid that reached the other
 * node as text, and never as a pid, is dead for this one.
 */
public final class Exports {
    private static final PerEnvironment<Map<Long, Pid>> PIDS = PerEnvironment.of(ConcurrentHashMap::new);
    private static final int FEW = 16;

    // Guarded by the lock of the process. Null until the first reference is written.
    private Map<Long, Ref> refs;
    private int many = FEW;

    private Exports() {}

    // --- writing -----------------------------------------------------------------------------------------------------

    /** Called before a pid of this node is written for another. */
    public static void pid(Pid own) {
        if (!PIDS.current().containsKey(own.serial())) {
            LocalProcess p = ProcessTable.live(own);
            if (p != null) {
                export(p);
            }
        }
    }

    private static Exports export(LocalProcess p) {
        Simulated.switchPoint();
        synchronized (p) {
            if (p.isDead()) {
                return null;
            }
            Receiver.RareState r = p.makeRare();
            if (r.exports == null) {
                r.exports = new Exports();
                PIDS.current().put(p.pid().serial(), p.pid());
            }
            return r.exports;
        }
    }

    /** Called before a reference of this node is written for another. True if it is or was an alias. */
    public static boolean ref(Ref own) {
        LocalProcess maker = own.isPlain() || own.maker() == null ? null : own.maker().process();
        if (maker != null) {
            synchronized (maker) {
                Exports e = own.isAddress() ? export(maker) : null;
                if (e != null) {
                    e.add(own);
                }
            }
        }
        return !own.isPlain();
    }

    private void add(Ref ref) {
        refs = refs == null ? new HashMap<>() : refs;
        if (refs.size() >= many) {
            refs.values().removeIf(old -> !old.isAddress());
            many = Math.max(FEW, 2 * refs.size());
        }
        refs.put(ref.id(), ref);
    }

    /** Called under the lock of a process that dies. */
    static void dies(LocalProcess p) {
        PIDS.current().remove(p.pid().serial(), p.pid()); // a thread of another environment may have killed it
    }

    // --- reading -----------------------------------------------------------------------------------------------------

    /** The pid of this node that another has written. */
    public static Pid pid(long serial, long creation) {
        Pid found = creation == Refs.creation() ? PIDS.current().get(serial) : null;
        return found == null ? Pid.ofDead(serial, creation) : found;
    }

    /**
     * The reference of this node that another has written.
     *
     * @param maker the process that made it, or null
     * @param address whether it is or was an alias
     */
    public static Ref ref(long id, long creation, Pid maker, boolean address) {
        LocalProcess p = maker == null || !address ? null : maker.process();
        Ref found = p == null ? null : find(p, id);
        return found != null && found.creation() == creation ? found
                : Ref.read(id, creation, maker, address ? Ref.Alias.CLOSED : Ref.Alias.NONE);
    }

    private static Ref find(LocalProcess p, long id) {
        synchronized (p) {
            Receiver.RareState r = p.rare();
            return r == null || r.exports == null || r.exports.refs == null ? null : r.exports.refs.get(id);
        }
    }
}
