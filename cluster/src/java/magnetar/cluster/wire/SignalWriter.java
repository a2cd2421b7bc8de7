package magnetar.cluster.wire;

import clojure.lang.ExceptionInfo;
import clojure.lang.IPersistentMap;
import clojure.lang.Keyword;
import clojure.lang.PersistentArrayMap;
import clojure.lang.PersistentVector;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import magnetar.etf.Codec;
import magnetar.etf.Encoder;
import magnetar.kernel.fiber.Propagation;
import magnetar.kernel.process.Dialect;
import magnetar.kernel.process.Outbox;
import magnetar.kernel.process.Signal;

/**
 * Writes signals into the outbox of a stream: the number of bytes that follow, the kind, and the parts as terms.
 * {@link SignalReader} reads them.
 *
 * <p>Any number of threads may write at once. One at a time uses the spare encoder, the others make their own.
 */
final class SignalWriter {
    /** The bytes of the length. */
    static final int LENGTH = 4;

    private static final int LARGEST_SPARE = 1 << 16;
    private static final Keyword UNSENDABLE = Keyword.intern("unsendable");

    private final Codec codec;
    private final Outbox outbox;
    private final int largest;
    private final AtomicReference<Encoder> spare = new AtomicReference<>();

    /** A writer of signals that have at most `largest` bytes: the other node refuses larger ones. */
    SignalWriter(Codec codec, Outbox outbox, int largest) {
        this.codec = codec;
        this.outbox = outbox;
        this.largest = largest;
    }

    /**
     * Adds the signal. Throws an error for a message, an exit or a request that cannot be written, or is too large. In
     * the other signals, text stands for such a reason.
     */
    void add(Signal signal) {
        Encoder taken = spare.getAndSet(null);
        Encoder e = taken == null ? new Encoder(codec) : taken;
        write(e, signal);
        if (e.length() - LENGTH > largest) {
            writeLess(e, signal);
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
            case Signal.Exit _, Signal.Link _, Signal.Monitor _, Signal.Spawn _ -> true;
            default -> false;
        };
    }

    /** Writes a signal that was too large: without its context, or with text for its reason. */
    private void writeLess(Encoder e, Signal signal) {
        int length = e.length() - LENGTH;
        Object text = PersistentVector.create(UNSENDABLE, "a reason of " + length + " bytes");
        switch (signal) {
            case Signal.Message s when s.context() != null -> write(e, new Signal.Message(s.from(), s.to(), s.message(), null));
            case Signal.Exit s when s.context() != null -> write(e, new Signal.Exit(s.from(), s.to(), s.reason(), null));
            case Signal.Spawn s when s.context() != null ->
                write(e, new Signal.Spawn(s.from(), s.ref(), s.leader(), s.what(), s.link(), s.monitor(), null));
            case Signal.ExitLink s -> write(e, new Signal.ExitLink(s.from(), s.to(), text));
            case Signal.Down s -> write(e, new Signal.Down(s.from(), s.to(), s.ref(), text));
            case Signal.SpawnReply s -> write(e, new Signal.SpawnReply(s.to(), s.ref(), text));
            default -> {}
        }
        if (e.length() - LENGTH > largest) {
            throw new ExceptionInfo("A message of " + length + " bytes is too large for another node, which reads at most " + largest
                    + ": send it in parts.", PersistentArrayMap.EMPTY.assoc(Keyword.intern("bytes"), (long) length));
        }
    }

    private void write(Encoder e, Signal signal) {
        switch (signal) {
            case Signal.Message s -> inContext(e, s.context(), Kind.MESSAGE, s.from(), s.to(), s.message());
            case Signal.Exit s -> inContext(e, s.context(), Kind.EXIT, s.from(), s.to(), s.reason());
            case Signal.ExitLink s -> withReason(e, Kind.EXIT_LINK, s.reason(), s.from(), s.to());
            case Signal.Link s -> terms(e, Kind.LINK, s.from(), s.to());
            case Signal.Unlink s -> terms(e, Kind.UNLINK, s.from(), s.to(), s.id());
            case Signal.UnlinkAck s -> terms(e, Kind.UNLINK_ACK, s.from(), s.to(), s.id());
            case Signal.Monitor s -> terms(e, Kind.MONITOR, s.from(), s.to(), s.ref());
            case Signal.Demonitor s -> terms(e, Kind.DEMONITOR, s.from(), s.to(), s.ref());
            case Signal.Down s -> withReason(e, Kind.DOWN, s.reason(), s.from(), s.to(), s.ref());
            case Signal.Spawn s -> inContext(e, s.context(), Kind.SPAWN, s.from(), s.ref(), s.leader(), s.link(), s.monitor(), s.what());
            case Signal.SpawnReply s -> withReason(e, Kind.SPAWN_REPLY, s.result(), s.to(), s.ref());
        }
    }

    private static void terms(Encoder e, Kind kind, Object... parts) {
        e.clear(LENGTH + 1);
        e.buffer()[LENGTH] = (byte) kind.ordinal();
        for (Object part : parts) {
            e.append(part);
        }
    }

    /**
     * The same, with the context values of the sender as the last part. Values that cannot be written are left out:
     * they were not sent on purpose. Thread-locals stay here.
     */
    private void inContext(Encoder e, Object context, Kind kind, Object... parts) {
        terms(e, kind, parts);
        IPersistentMap values = (IPersistentMap) Propagation.valuesOf(context);
        try {
            e.append(values);
        } catch (ExceptionInfo cannot) {
            e.append(sendable(values));
        }
    }

    private IPersistentMap sendable(IPersistentMap values) {
        Encoder probe = new Encoder(codec);
        IPersistentMap some = PersistentArrayMap.EMPTY;
        for (Object entry : values) {
            Map.Entry<?, ?> each = (Map.Entry<?, ?>) entry;
            try {
                probe.encode(each.getValue());
                some = some.assoc(each.getKey(), each.getValue());
            } catch (ExceptionInfo cannot) {
                // It stays here.
            }
        }
        return some;
    }

    /** The same, with a reason as the last part. */
    private static void withReason(Encoder e, Kind kind, Object reason, Object... parts) {
        terms(e, kind, parts);
        try {
            e.append(reason);
        } catch (ExceptionInfo cannot) {
            e.append(PersistentVector.create(UNSENDABLE, Dialect.text(reason)));
        }
    }
}
