package magnetar.erlang.wire;

import java.util.HashMap;
import java.util.Map;
import magnetar.etf.Reference;
import magnetar.kernel.process.Peer;
import magnetar.kernel.process.Ref;

/**
 * The monitors that processes of another node have over one connection, by their references. The kernel's reference has a
 * number of this class, since those of Erlang have up to 160 bits.
 *
 * <p>Invariant: a monitor is in both maps from its begin until its end is written, or until the other side has ended it.
 * So there are as many as the kernel lists.
 */
final class Watches {
    private final Peer peer;

    // Guarded by its lock.
    private final Map<Reference, Ref> own = new HashMap<>();
    private final Map<Long, Reference> theirs = new HashMap<>();
    private long last;

    Watches(Peer peer) {
        this.peer = peer;
    }

    /** The kernel's reference of a monitor that begins. */
    synchronized Ref begin(Reference reference) {
        Ref known = own.get(reference);
        if (known != null) {
            return known;
        }
        last++;
        Ref made = peer.ref(last, null, false);
        own.put(reference, made);
        theirs.put(last, reference);
        return made;
    }

    /** The same of one that the other side ends; null if it has ended. */
    synchronized Ref end(Reference reference) {
        Ref ref = own.remove(reference);
        if (ref != null) {
            theirs.remove(ref.id());
        }
        return ref;
    }

    /** The reference of the other node for a monitor that has fired; null if that one has ended it. */
    synchronized Reference fired(Ref ref) {
        Reference reference = theirs.remove(ref.id());
        if (reference != null) {
            own.remove(reference);
        }
        return reference;
    }

    synchronized int size() {
        return own.size();
    }
}
