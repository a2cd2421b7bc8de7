package magnetar.cluster.wire;

import magnetar.etf.Identities;
import magnetar.etf.Reference;
import magnetar.kernel.process.Exports;
import magnetar.kernel.process.Peer;
import magnetar.kernel.process.Peers;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.Ref;
import magnetar.kernel.process.Transport;

/**
 * Pids and references of processes as terms, and back, as the current node knows them.
 *
 * <p>A number of 64 bits takes two words. A reference has the words of its id, of its maker, and one that says
 * whether it is an address: so an alias finds its process on its node.
 *
 * <p>Own ones are written with the node's incarnation as their creation. So a pid of before a restart of the node in
 * this JVM is dead for the others, and when it comes back.
 */
final class ProcessIds implements Identities {
    private static final int WORDS = 5;

    private final Transport transport;
    private final long incarnation;

    /** Processes of nodes that are not known yet will be reached by the transport. */
    ProcessIds(Transport transport, long incarnation) {
        this.transport = transport;
        this.incarnation = incarnation;
    }

    // --- writing -----------------------------------------------------------------------------------------------------

    @Override
    public Object write(Object value) {
        return value instanceof Pid pid ? term(pid) : value instanceof Ref ref ? term(ref) : null;
    }

    private magnetar.etf.Pid term(Pid pid) {
        boolean own = pid.node() == 0;
        if (own) {
            Exports.pid(pid);
        }
        long serial = pid.serial();
        return new magnetar.etf.Pid(nodeOf(pid), low(serial), high(serial), own ? incarnation : pid.creation());
    }

    private Reference term(Ref ref) {
        boolean own = ref.creation() == Peers.creation();
        boolean address = own ? Exports.ref(ref) : !ref.isPlain();
        if (own && ref.maker() != null) {
            Exports.pid(ref.maker());
        }
        long maker = ref.maker() == null ? 0 : ref.maker().serial();
        long id = ref.id();
        long creation = own ? incarnation : ref.creation();
        return new Reference(own ? Peers.name() : nodeOf(ref.maker()), creation, (int) id, (int) (id >>> 32), (int) maker,
                (int) (maker >>> 32), address ? 1 : 0);
    }

    private static String nodeOf(Pid pid) {
        String name = pid == null ? null : pid.nodeName();
        return name == null ? Peers.NO_NAME : name;
    }

    private static long low(long x) {
        return x & 0xffffffffL;
    }

    private static long high(long x) {
        return x >>> 32;
    }

    // --- reading -----------------------------------------------------------------------------------------------------

    @Override
    public Object read(Object identity) {
        if (identity instanceof magnetar.etf.Pid pid) {
            return pid(pid.node(), pid.id() | pid.serial() << 32, pid.creation());
        }
        return identity instanceof Reference ref && ref.count() == WORDS ? ref(ref) : identity;
    }

    private Pid pid(String node, long serial, long creation) {
        return isOwn(node, creation) ? Exports.pid(serial, Peers.creation()) : peer(node, creation).pid(serial);
    }

    private Ref ref(Reference ref) {
        long id = word(ref, 0) | word(ref, 1) << 32;
        long maker = word(ref, 2) | word(ref, 3) << 32;
        boolean address = ref.word(4) == 1;
        if (isOwn(ref.node(), ref.creation())) {
            long creation = Peers.creation();
            return Exports.ref(id, creation, maker == 0 ? null : Exports.pid(maker, creation), address);
        }
        Peer peer = peer(ref.node(), ref.creation());
        return peer.ref(id, peer.pid(maker), address);
    }

    private static long word(Reference ref, int index) {
        return ref.word(index) & 0xffffffffL;
    }

    private boolean isOwn(String node, long creation) {
        return creation == incarnation && node.equals(Peers.name());
    }

    private Peer peer(String node, long creation) {
        return Peers.peer(node, creation, transport);
    }
}
