package magnetar.erlang.wire;

import clojure.lang.ExceptionInfo;
import clojure.lang.Keyword;
import clojure.lang.LazilyPersistentVector;
import clojure.lang.Tuple;
import java.math.BigInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import magnetar.etf.Codec;
import magnetar.etf.Encoder;
import magnetar.etf.Reference;
import magnetar.kernel.process.Outbox;
import magnetar.kernel.process.Signal;

/**
 * Writes signals as packets into an outbox: the length, a header without atoms, a control message, and perhaps a payload.
 * {@link Incoming} is the other side of it.
 *
 * <p>Any number of threads may write at once. One at a time uses the spare encoder, the others make their own.
 */
final class Outgoing {
    private static final int LENGTH = 4;
    private static final int LARGEST_SPARE = 1 << 16;
    private static final byte[] HEADER = {(byte) 131, 68, 0};
    private static final byte[] PASS_THROUGH = {112};
    private static final byte[] TICK = new byte[LENGTH];
    private static final Keyword EMPTY = Keyword.intern("");
    private static final Keyword UNSENDABLE = Keyword.intern("unsendable");
    private static final Object[] NOTHING = {};

    private final byte[] start;
    private final Codec codec;
    private final Outbox outbox;
    private final Consumer<Throwable> failed;
    private final AtomicReference<Encoder> spare = new AtomicReference<>();

    /**
     * A writer.
     *
     * @param headers whether packets have headers with atoms
     * @param failed is told of an answer that cannot be written, whose caller gets a notice of a death instead
     */
    Outgoing(boolean headers, Codec codec, Outbox outbox, Consumer<Throwable> failed) {
        this.start = headers ? HEADER : PASS_THROUGH;
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
        if (!write(e, signal)) {
            return;
        }
        byte[] bytes = e.buffer();
        int length = e.length() - LENGTH;
        bytes[0] = (byte) (length >> 24);
        bytes[1] = (byte) (length >> 16);
        bytes[2] = (byte) (length >> 8);
        bytes[3] = (byte) length;
        outbox.add(bytes, 0, e.length(), hasWaited(signal));
        if (bytes.length <= LARGEST_SPARE) {
            spare.set(e);
        }
    }

    /** True if its sender has waited for room. A timer has not, and what the kernel tells by itself has not. */
    private static boolean hasWaited(Signal signal) {
        return switch (signal) {
            case Signal.Message s -> s.from() != null;
            case Signal.Exit _, Signal.Link _, Signal.Monitor _ -> true;
            default -> false;
        };
    }

    /** False if the other node does not have to know of it. */
    private boolean write(Encoder e, Signal signal) {
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
            case Signal.Spawn _ -> throw new UnsupportedOperationException("This version starts no processes on nodes of Erlang.");
            case Signal.SpawnReply _ -> {
                return false; // the other node asks for no process: see Flags
            }
        }
        return true;
    }

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
        } catch (ExceptionInfo cannot) {
            failed.accept(cannot);
            terms(e, new Object[] {Tuple.create(UNSENDABLE, cannot.getMessage())}, Op.PAYLOAD_DOWN, sender(s.from()), s.to(), alias);
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
        } catch (ExceptionInfo cannot) {
            withNearReason(e, reason, op, parts);
        }
    }

    /** An atom may be missing for a name, such as the one that stands for null. Then the reason is text. */
    private void withNearReason(Encoder e, Object reason, int op, Object... parts) {
        try {
            terms(e, new Object[] {Reasons.sendable(reason)}, op, parts);
        } catch (ExceptionInfo cannot) {
            terms(e, new Object[] {Reasons.text(reason)}, op, parts);
        }
    }

    private void terms(Encoder e, Object[] payload, int op, Object... parts) {
        Object[] control = new Object[1 + parts.length];
        control[0] = (long) op;
        System.arraycopy(parts, 0, control, 1, parts.length);
        e.clear(LENGTH + start.length);
        System.arraycopy(start, 0, e.buffer(), LENGTH, start.length);
        term(e, LazilyPersistentVector.createOwning(control));
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
