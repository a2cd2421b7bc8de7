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
 *
 * <p>Requests to event managers and requests of {@code sys} have other envelopes in Erlang. Only the envelopes are translated
 * here. What is in them keeps Erlang's words, within {@code [:magnetar/event request]} and {@code [:magnetar/erlang request]}.
 * The behaviours know what to do with the words, and with the answers.
 */
final class Requests {
    private static final String LIBRARY = "magnetar";
    private static final Keyword CALL = Keyword.intern("magnetar", "call");
    private static final Keyword CAST = Keyword.intern("magnetar", "cast");
    private static final Keyword EVENT = Keyword.intern("magnetar", "event");
    private static final Keyword MAGNETAR_SYSTEM = Keyword.intern("magnetar", "system");
    private static final Keyword ERLANG = Keyword.intern("magnetar", "erlang");
    private static final Keyword SYSTEM = Keyword.intern("system");
    private static final Keyword GEN_EVENT_EXIT = Keyword.intern("gen_event_EXIT");
    private static final Keyword OWN_EVENT_EXIT = Keyword.intern("gen-event-EXIT");
    private static final Keyword GEN_CALL = Keyword.intern("$gen_call");
    private static final Keyword GEN_CAST = Keyword.intern("$gen_cast");

    private Requests() {}

    // --- to Erlang ---------------------------------------------------------------------------------------------------

    /** The message as Erlang has it. */
    static Object outgoing(Object message) {
        if (!(message instanceof IPersistentVector v)) {
            return message;
        }
        if (v.length() == 3 && v.nth(1) instanceof IPersistentVector from && from.length() == 2) {
            return v.nth(0) == CALL ? call(from, v.nth(2)) : v.nth(0) == MAGNETAR_SYSTEM ? system(from, v.nth(2)) : message;
        }
        return v.length() == 2 && v.nth(0) == CAST ? Tuple.create(GEN_CAST, v.nth(1)) : message;
    }

    private static Object call(IPersistentVector from, Object request) {
        Object caller = from.nth(0);
        IPersistentVector to = Tuple.create(caller, tag(from.nth(1)));
        return isWrapped(request, EVENT) ? Tuple.create(caller, to, ((IPersistentVector) request).nth(1)) : Tuple.create(GEN_CALL, to, request);
    }

    /** Erlang answers all of them, so an answer that is not wanted goes to no process. */
    private static Object system(IPersistentVector from, Object request) {
        Object own = isWrapped(request, ERLANG) ? ((IPersistentVector) request).nth(1) : request;
        Object tag = from.nth(1);
        return Tuple.create(SYSTEM, Tuple.create(tag == null ? Ids.outside() : from.nth(0), tag(tag)), own);
    }

    private static boolean isWrapped(Object request, Keyword in) {
        return request instanceof IPersistentVector v && v.length() == 2 && v.nth(0) == in;
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

    /**
     * True for a message that is a keyword of this library's namespaces, or begins with one: only processes of this JVM speak so
     * with each other. Servers would take one of another node for their own, such as a request that replaces their state.
     */
    static boolean isOwn(Object message) {
        Object head = message instanceof IPersistentVector v && v.length() > 0 ? v.nth(0) : message;
        String namespace = head instanceof Keyword k ? k.getNamespace() : null;
        return namespace != null && (namespace.equals(LIBRARY) || namespace.startsWith(LIBRARY + "."));
    }

    /** The message of the peer as this library has it. */
    static Object incoming(Peer peer, Object message) {
        if (!(message instanceof IPersistentVector v)) {
            return message;
        }
        if (v.length() == 3 && v.nth(0) == GEN_EVENT_EXIT) {
            return Tuple.create(OWN_EVENT_EXIT, v.nth(1), v.nth(2));
        }
        if (v.length() == 3 && v.nth(1) instanceof IPersistentVector from && from.length() == 2) {
            return request(peer, v, from);
        }
        if (v.length() != 2) {
            return message;
        }
        Ref alias = answered(message);
        return v.nth(0) == GEN_CAST ? Tuple.create(CAST, v.nth(1)) : alias != null ? Tuple.create(alias, v.nth(1)) : message;
    }

    private static Object request(Peer peer, IPersistentVector message, IPersistentVector from) {
        Object label = message.nth(0);
        Object caller = from.nth(0);
        if (label == GEN_CALL && caller instanceof Pid) {
            return Tuple.create(CALL, Tuple.create(caller, Ids.callTag(peer, from.nth(1))), message.nth(2));
        }
        if (label == SYSTEM && caller instanceof Pid) {
            return Tuple.create(MAGNETAR_SYSTEM, Tuple.create(caller, Ids.callTag(peer, from.nth(1))), Tuple.create(ERLANG, message.nth(2)));
        }
        if (label instanceof Pid && label.equals(caller) && from.nth(1) instanceof ImproperList l && Ids.isTag(l)) {
            return Tuple.create(CALL, Tuple.create(caller, Ids.callTag(peer, l)), Tuple.create(EVENT, message.nth(2)));
        }
        return message;
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
