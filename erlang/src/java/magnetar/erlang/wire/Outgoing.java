package magnetar.erlang.wire;

import clojure.lang.ExceptionInfo;
import clojure.lang.IPersistentVector;
import clojure.lang.Keyword;
import clojure.lang.LazilyPersistentVector;
import clojure.lang.PersistentList;
import clojure.lang.Tuple;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.math.BigInteger;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Stream;
import magnetar.etf.Codec;
import magnetar.etf.Encoder;
import magnetar.etf.Reference;
import magnetar.kernel.process.Outbox;
import magnetar.kernel.process.Ref;
import magnetar.kernel.process.Signal;

/**
 * Writes signals as packets into an outbox: the length, a header without atoms, a control message, and perhaps a payload.
 * {@link Incoming} is the other side of it.
 *
 * <p>Any number of threads may write at once. One at a time uses the spare encoder, the others make their own.
 *
 * <p>A large payload is given to {@link Parts}, if the other node takes parts. The control message is in the first one.
 */
final class Outgoing {
    private static final int LENGTH = 4;
    private static final int LARGEST_SPARE = 1 << 16;
    private static final VarHandle INTS = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.BIG_ENDIAN);
    private static final byte[] HEADER = {(byte) 131, 68, 0};
    private static final byte[] PASS_THROUGH = {112};
    private static final byte[] TICK = new byte[LENGTH];
    private static final Keyword EMPTY = Keyword.intern("");
    private static final Keyword UNSENDABLE = Keyword.intern("unsendable");
    private static final Keyword BADARG = Keyword.intern("badarg");
    private static final Keyword LINK = Keyword.intern("link");
    private static final Keyword MONITOR = Keyword.intern("monitor");
    private static final Keyword RETURN = Keyword.intern("return");
    private static final Keyword ERROR = Keyword.intern("error");
    private static final int LINKED = 1;
    private static final int MONITORED = 2;
    private static final Object[] NOTHING = {};

    private final byte[] start;
    private final Codec codec;
    private final Outbox outbox;
    private final Consumer<Throwable> failed;
    private final boolean spawns;
    private final Parts parts; // null if each message leaves whole
    private final AtomicReference<Encoder> spare = new AtomicReference<>();
    private final Map<Ref, Integer> asked = new ConcurrentHashMap<>(); // from requests of the other node to their flags

    /**
     * A writer.
     *
     * @param headers whether packets have headers with atoms
     * @param spawns whether the other node starts processes for this one
     * @param parts takes the large messages; null if the other node takes no parts. Without headers it takes none
     * @param failed is told of an answer that cannot be written, whose caller gets a notice of a death instead
     */
    Outgoing(boolean headers, boolean spawns, Codec codec, Outbox outbox, Parts parts, Consumer<Throwable> failed) {
        this.start = headers ? HEADER : PASS_THROUGH;
        this.spawns = spawns;
        this.parts = headers ? parts : null;
        this.codec = codec;
        this.outbox = outbox;
        this.failed = failed;
    }

    /** Adds a packet that only says that this node is there, unless other packets wait. */
    void tick() {
        if (outbox.size() == 0) {
            outbox.add(TICK, 0, LENGTH, false);
        }
    }

    /**
     * Adds the signal. Throws an error for a message or an exit that cannot be written. In the other signals, text stands
     * for such a reason.
     */
    void add(Signal signal) {
        Encoder taken = spare.getAndSet(null);
        Encoder e = taken == null ? new Encoder(codec) : taken;
        write(e, signal);
        byte[] bytes = e.buffer();
        boolean isKept = parts != null && inParts(e, signal);
        if (!isKept) {
            INTS.set(bytes, 0, e.length() - LENGTH);
            outbox.add(bytes, 0, e.length(), hasWaited(signal));
        }
        if (bytes.length <= LARGEST_SPARE) {
            spare.set(e);
        }
    }

    /** True if the signal is large, or has to leave behind a large one, and leaves later. */
    private boolean inParts(Encoder e, Signal signal) {
        byte[] bytes = e.buffer();
        int control = (int) INTS.get(bytes, 0);
        boolean isLarge = e.length() - control > parts.part();
        Object sender = isLarge || parts.isBusy() ? senderOf(signal) : null;
        if (sender == null) {
            return false;
        }
        if (isLarge && sender != Parts.UNKNOWN) {
            byte[] own = bytes.length <= LARGEST_SPARE ? Arrays.copyOf(bytes, e.length()) : bytes; // which the encoder uses again
            parts.add(sender, own, LENGTH + start.length, control, e.length(), hasWaited(signal));
            return true;
        }
        INTS.set(bytes, 0, e.length() - LENGTH);
        return parts.keep(sender, bytes, e.length(), hasWaited(signal));
    }

    /** What the signal has to stay in order with; null for an answer to a request for a process, which may pass others. */
    private static Object senderOf(Signal signal) {
        return switch (signal) {
            case Signal.Message s -> orCurrent(s.from());
            case Signal.Exit s -> orCurrent(s.from());
            case Signal.ExitLink s -> s.from();
            case Signal.Link s -> s.from();
            case Signal.Unlink s -> s.from();
            case Signal.UnlinkAck s -> s.from();
            case Signal.Monitor s -> s.from();
            case Signal.Demonitor s -> s.from();
            case Signal.Down s -> s.from() instanceof magnetar.kernel.process.Pid from ? from : Parts.UNKNOWN;
            case Signal.Spawn s -> s.from();
            case Signal.SpawnReply _ -> null;
        };
    }

    /** A process that does not wait for room, as for a system message or a notice, says no sender. */
    private static Object orCurrent(Object from) {
        return from == null ? Parts.sender() : from;
    }

    /** True if its sender has waited for room. A timer has not, and what the kernel tells by itself has not. */
    private static boolean hasWaited(Signal signal) {
        return switch (signal) {
            case Signal.Message s -> s.from() != null;
            case Signal.Exit _, Signal.Link _, Signal.Monitor _, Signal.Spawn _ -> true;
            default -> false;
        };
    }

    private void write(Encoder e, Signal signal) {
        switch (signal) {
            case Signal.Message s -> message(e, s);
            case Signal.Exit s -> terms(e, new Object[] {s.reason()}, Op.PAYLOAD_EXIT2, sender(s.from()), s.to());
            case Signal.ExitLink s -> withReason(e, s.reason(), Op.PAYLOAD_EXIT, s.from(), s.to());
            case Signal.Link s -> terms(e, NOTHING, Op.LINK, s.from(), s.to());
            case Signal.Unlink s -> terms(e, NOTHING, Op.UNLINK_ID, unsigned(s.id()), s.from(), s.to());
            case Signal.UnlinkAck s -> terms(e, NOTHING, Op.UNLINK_ID_ACK, unsigned(s.id()), s.from(), s.to());
            case Signal.Monitor s -> terms(e, NOTHING, Op.MONITOR, s.from(), s.to(), s.ref());
            case Signal.Demonitor s -> terms(e, NOTHING, Op.DEMONITOR, s.from(), s.to(), s.ref());
            case Signal.Down s -> withReason(e, s.reason(), Op.PAYLOAD_DOWN, s.from(), s.to(), s.ref());
            case Signal.Spawn s -> spawn(e, s);
            case Signal.SpawnReply s -> spawned(e, s);
        }
    }

    // --- processes ---------------------------------------------------------------------------------------------------

    /** Notes the request of the other node for a process. Its answer says which of a link and a monitor there are. */
    void isAsked(Signal.Spawn request) {
        asked.put(request.ref(), (request.link() ? LINKED : 0) | (request.monitor() ? MONITORED : 0));
    }

    private void spawn(Encoder e, Signal.Spawn s) {
        if (!(s.what() instanceof Call call)) {
            throw new UnsupportedOperationException("`cluster/spawn` starts no process on a node of Erlang: use `erlang/spawn`.");
        }
        if (!spawns) {
            throw new UnsupportedOperationException("The node starts no processes for others.");
        }
        List<Keyword> options = Stream.of(s.link() ? LINK : null, s.monitor() ? MONITOR : null).filter(Objects::nonNull).toList();
        terms(e, new Object[] {PersistentList.create(call.args())}, Op.SPAWN_REQUEST, s.ref(), s.from(), call.leader(),
                Tuple.create(call.module(), call.function(), (long) call.args().size()), PersistentList.create(options));
    }

    private void spawned(Encoder e, Signal.SpawnReply s) {
        Integer flags = asked.remove(s.ref());
        boolean started = s.result() instanceof magnetar.kernel.process.Pid;
        Object result = started || s.result() instanceof Keyword ? s.result() : BADARG; // Erlang allows nothing else
        terms(e, NOTHING, Op.SPAWN_REPLY, s.ref(), s.to(), started && flags != null ? (long) flags : 0L, result);
    }

    // --- messages ----------------------------------------------------------------------------------------------------

    private void message(Encoder e, Signal.Message s) {
        Reference alias = Requests.aliasOf(s.to(), s.message());
        if (alias != null) {
            answer(e, s, alias);
            return;
        }
        Object[] message = {Requests.outgoing(s.message())};
        switch (s.to()) {
            case magnetar.kernel.process.Pid to when s.from() == null -> terms(e, message, Op.SEND, EMPTY, to);
            case magnetar.kernel.process.Pid to -> terms(e, message, Op.SEND_SENDER, s.from(), to);
            case magnetar.kernel.process.Ref to -> terms(e, message, Op.ALIAS_SEND, sender(s.from()), to);
            default -> terms(e, message, Op.REG_SEND, sender(s.from()), EMPTY, s.to());
        }
    }

    /** The server must not end because of a caller. So a caller whose answer cannot be written gets a notice of a death. */
    private void answer(Encoder e, Signal.Message s, Reference alias) {
        try {
            terms(e, new Object[] {s.message()}, Op.ALIAS_SEND, sender(s.from()), alias);
        } catch (Exception | StackOverflowError cannot) {
            failed.accept(cannot);
            terms(e, new Object[] {Tuple.create(UNSENDABLE, text(cannot))}, Op.PAYLOAD_DOWN, sender(s.from()), s.to(), alias);
        }
    }

    private static Object sender(Object from) {
        return from == null ? Ids.outside() : from;
    }

    private static Object unsigned(long id) {
        return id >= 0 ? (Object) id : new BigInteger(Long.toUnsignedString(id));
    }

    /** The same, with a reason behind the control message. One that cannot be written is replaced by the nearest that can. */
    private void withReason(Encoder e, Object reason, int op, Object... parts) {
        try {
            terms(e, new Object[] {reason}, op, parts);
        } catch (Exception | StackOverflowError cannot) {
            if (reason instanceof IPersistentVector v && isValueOfCall(v)) {
                terms(e, new Object[] {failureOfCall(v, cannot)}, op, parts);
            } else {
                withNearReason(e, reason, op, parts);
            }
        }
    }

    /** An atom may be missing for a name, such as the one that stands for null. Then the reason is text. */
    private void withNearReason(Encoder e, Object reason, int op, Object... parts) {
        try {
            terms(e, new Object[] {Reasons.sendable(reason)}, op, parts);
        } catch (Exception | StackOverflowError cannot) {
            terms(e, new Object[] {Reasons.text(reason)}, op, parts);
        }
    }

    /** True for the reason of a process that has called a function for erpc, which has returned. */
    private static boolean isValueOfCall(IPersistentVector reason) {
        return reason.length() == 3 && reason.nth(0) instanceof Ref && reason.nth(1) == RETURN;
    }

    /** The reason that says of such a call that its value cannot be written. */
    private static Object failureOfCall(IPersistentVector reason, Throwable cannot) {
        return Tuple.create(reason.nth(0), ERROR, Tuple.create(UNSENDABLE, text(cannot)), PersistentList.EMPTY);
    }

    /** Why a value cannot be written: it has no term, or is lazy and its code has thrown. */
    private static String text(Throwable cannot) {
        return cannot instanceof ExceptionInfo ? cannot.getMessage() : cannot.toString();
    }

    private void terms(Encoder e, Object[] payload, int op, Object... parts) {
        Object[] control = new Object[1 + parts.length];
        control[0] = (long) op;
        System.arraycopy(parts, 0, control, 1, parts.length);
        e.clear(LENGTH + start.length);
        System.arraycopy(start, 0, e.buffer(), LENGTH, start.length);
        term(e, LazilyPersistentVector.createOwning(control));
        INTS.set(e.buffer(), 0, e.length()); // the length of the packet comes there when it is known
        for (Object each : payload) {
            term(e, each);
        }
    }

    private void term(Encoder e, Object value) {
        if (start == HEADER) {
            e.appendBare(value);
        } else {
            e.append(value);
        }
    }
}
