package magnetar.erlang.wire;

import clojure.lang.Keyword;
import clojure.lang.PersistentList;
import java.util.List;
import magnetar.etf.Identities;
import magnetar.etf.ImproperList;
import magnetar.etf.Reference;
import magnetar.kernel.process.Exports;
import magnetar.kernel.process.ForeignRef;
import magnetar.kernel.process.Peer;
import magnetar.kernel.process.Peers;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.Ref;
import magnetar.kernel.process.Transport;

/**
 * Pids and references of processes as terms of Erlang, and back.
 *
 * <p>The number of a pid has 64 bits, which are the id and the serial of its term. An own reference has five words: its id,
 * its maker and whether it is an address. So an alias finds its process when it comes back.
 *
 * <p>References of other nodes keep their words, and go back as they came. One with five words may be an alias: Erlang's
 * other references have three.
 */
final class Ids implements Identities {
    private static final int WORDS = 5;
    private static final Keyword ALIAS = Keyword.intern("alias");
    private static final long LOW = 0xffffffffL;

    private final Transport transport;

    /** Processes of other nodes are reached by the transport. */
    Ids(Transport transport) {
        this.transport = transport;
    }

    /** Stands for a sender that is no process: Erlang knows no message to a name without the pid of a sender. */
    static magnetar.etf.Pid outside() {
        return new magnetar.etf.Pid(Peers.name(), 0, 0, Peers.incarnation());
    }

    @Override
    public Object write(Object value) {
        return switch (value) {
            case Pid pid -> term(pid);
            case ForeignRef ref when ref.isCallTag() -> tag(foreign(ref));
            case ForeignRef ref -> foreign(ref);
            case Ref ref -> term(ref);
            default -> null;
        };
    }

    /** The tag {@code [alias | Ref]} of a call whose answer goes to an alias. */
    static ImproperList tag(Object alias) {
        return new ImproperList((PersistentList) PersistentList.create(List.of(ALIAS)), alias);
    }

    /** True for the items of such a tag. */
    static boolean isTag(ImproperList l) {
        return l.items().count() == 1 && l.items().seq().first() == ALIAS;
    }

    /** The reference as its node has written it. */
    static Reference foreign(ForeignRef ref) {
        return new Reference(nodeOf(ref.maker()), ref.creation(), ref.words());
    }

    private static magnetar.etf.Pid term(Pid pid) {
        boolean own = pid.node() == 0;
        if (own) {
            Exports.pid(pid);
        }
        long number = pid.serial();
        return new magnetar.etf.Pid(nodeOf(pid), number & LOW, number >>> 32, own ? Peers.incarnation() : pid.creation());
    }

    private static Reference term(Ref ref) {
        boolean own = ref.creation() == Peers.creation();
        boolean address = own ? Exports.ref(ref) : !ref.isPlain();
        if (own && ref.maker() != null) {
            Exports.pid(ref.maker());
        }
        long maker = ref.maker() == null ? 0 : ref.maker().serial();
        long id = ref.id();
        return new Reference(own ? Peers.name() : nodeOf(ref.maker()), own ? Peers.incarnation() : ref.creation(), (int) id, (int) (id >>> 32),
                (int) maker, (int) (maker >>> 32), address ? 1 : 0);
    }

    private static String nodeOf(Pid pid) {
        String name = pid == null ? null : pid.nodeName();
        return name == null ? Peers.NO_NAME : name;
    }

    @Override
    public Object read(Object identity) {
        if (identity instanceof magnetar.etf.Pid pid) {
            long number = pid.id() | pid.serial() << 32;
            return isOwn(pid.node(), pid.creation()) ? Exports.pid(number, Peers.creation())
                    : Peers.peer(pid.node(), pid.creation(), transport).pid(number);
        }
        return identity instanceof Reference ref ? reference(ref) : identity;
    }

    private Object reference(Reference ref) {
        if (!isOwn(ref.node(), ref.creation())) {
            int[] words = new int[ref.count()];
            for (int i = 0; i < words.length; i++) {
                words[i] = ref.word(i);
            }
            return new ForeignRef(Peers.peer(ref.node(), ref.creation(), transport), words, words.length == WORDS, false);
        }
        return ref.count() == WORDS ? own(ref) : ref;
    }

    /**
     * The reference as the tag of a call of the peer. It is no address, so the answer is sent to the caller, and {@link
     * Outgoing} sends it on to the alias if there is one.
     */
    static Object callTag(Peer peer, Object tag) {
        return switch (tag) {
            case ForeignRef ref when isOf(peer, ref) -> new ForeignRef(peer, ref.words(), false, false);
            case ImproperList l when isTag(l) && l.tail() instanceof ForeignRef ref && isOf(peer, ref) ->
                new ForeignRef(peer, ref.words(), false, true);
            case null, default -> tag;
        };
    }

    private static boolean isOf(Peer peer, ForeignRef ref) {
        return ref.creation() == peer.creation() && peer.name().equals(ref.maker().nodeName());
    }

    private static Ref own(Reference ref) {
        long maker = word(ref, 2) | word(ref, 3) << 32;
        long creation = Peers.creation();
        return Exports.ref(word(ref, 0) | word(ref, 1) << 32, creation, maker == 0 ? null : Exports.pid(maker, creation), ref.word(4) == 1);
    }

    private static long word(Reference ref, int index) {
        return ref.word(index) & LOW;
    }

    private static boolean isOwn(String node, long creation) {
        return creation == Peers.incarnation() && node.equals(Peers.name());
    }
}
