package magnetar.erlang.wire;

import clojure.lang.IPersistentVector;
import clojure.lang.ISeq;
import clojure.lang.Keyword;
import clojure.lang.Sequential;
import clojure.lang.Tuple;
import magnetar.etf.ImproperList;
import magnetar.etf.Reference;
import magnetar.kernel.process.ForeignRef;
import magnetar.kernel.process.Peer;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.Ref;

/**
 * Requests and answers of servers in the forms of both sides. Erlang has {@code {'$gen_call', {Pid, Tag}, Request}} where
 * this library has {@code [:magnetar/call [pid ref] request]}. Where the tag is {@code [alias | Ref]}, the answer goes to the
 * alias, and not to the pid.
 */
final class Requests {
    private static final Keyword CALL = Keyword.intern("magnetar", "call");
    private static final Keyword CAST = Keyword.intern("magnetar", "cast");
    private static final Keyword GEN_CALL = Keyword.intern("$gen_call");
    private static final Keyword GEN_CAST = Keyword.intern("$gen_cast");

    private Requests() {}

    // --- to Erlang ---------------------------------------------------------------------------------------------------

    /** The message as Erlang has it. */
    static Object outgoing(Object message) {
        if (!(message instanceof IPersistentVector v)) {
            return message;
        }
        if (v.length() == 3 && v.nth(0) == CALL && v.nth(1) instanceof IPersistentVector from && from.length() == 2) {
            return Tuple.create(GEN_CALL, Tuple.create(from.nth(0), tag(from.nth(1))), v.nth(2));
        }
        return v.length() == 2 && v.nth(0) == CAST ? Tuple.create(GEN_CAST, v.nth(1)) : message;
    }

    private static Object tag(Object tag) {
        return tag instanceof Ref ref && !ref.isPlain() ? Ids.tag(ref) : tag;
    }

    /** The alias that an answer goes to, if the message is one for a request with an alias; else null. */
    static Reference aliasOf(Object to, Object message) {
        return to instanceof Pid && message instanceof IPersistentVector v && v.length() == 2 ? aliasIn(v.nth(0)) : null;
    }

    /** The reference of the tag of a call, which may be the first item of a list. */
    private static Reference aliasIn(Object tag) {
        return switch (tag) {
            case ForeignRef ref when ref.isCallTag() -> Ids.foreign(ref);
            case ImproperList l when Ids.isTag(l) -> l.tail() instanceof ForeignRef ref ? Ids.foreign(ref) : null;
            case ImproperList l -> nested(l.items().seq().first());
            case ISeq s when tag instanceof Sequential -> nested(s.first());
            case null, default -> null;
        };
    }

    private static Reference nested(Object first) {
        return first instanceof ImproperList l ? aliasIn(l) : null;
    }

    // --- from Erlang -------------------------------------------------------------------------------------------------

    /** The message of the peer as this library has it. */
    static Object incoming(Peer peer, Object message) {
        if (!(message instanceof IPersistentVector v)) {
            return message;
        }
        if (v.length() == 3 && v.nth(0) == GEN_CALL && v.nth(1) instanceof IPersistentVector from && from.length() == 2) {
            return Tuple.create(CALL, Tuple.create(from.nth(0), Ids.callTag(peer, from.nth(1))), v.nth(2));
        }
        if (v.length() != 2) {
            return message;
        }
        Ref alias = answered(message);
        return v.nth(0) == GEN_CAST ? Tuple.create(CAST, v.nth(1)) : alias != null ? Tuple.create(alias, v.nth(1)) : message;
    }

    /**
     * The alias of this node whose request the message answers; null if it is no such answer. Most are sent to the alias.
     * Some servers of Erlang, such as net_kernel, send them to the pid of the caller.
     */
    static Ref answered(Object message) {
        return message instanceof IPersistentVector v && v.length() == 2 && v.nth(0) instanceof ImproperList l && Ids.isTag(l)
                && l.tail() instanceof Ref ref && !(ref instanceof ForeignRef) ? ref : null;
    }
}
