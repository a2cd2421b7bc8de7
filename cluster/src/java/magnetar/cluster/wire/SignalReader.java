package magnetar.cluster.wire;

import clojure.lang.ExceptionInfo;
import clojure.lang.IPersistentMap;
import clojure.lang.Keyword;
import clojure.lang.PersistentVector;
import java.util.Arrays;
import java.util.function.Consumer;
import magnetar.etf.Codec;
import magnetar.etf.Decoder;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.Ref;
import magnetar.kernel.process.Signal;

/**
 * Reads the signals that a {@link SignalWriter} of another node has written, from parts of its stream of any size.
 *
 * <p>What the other node was free to send may be unreadable here: then a message is left out and told of, and in other
 * signals text stands for a reason. Only the first one, the 10th, the 100th and so on are told of, so that many of them
 * do not fill a log. Everything else that is not as it has to be is a {@link BadStream}.
 *
 * <p>One thread at a time uses it.
 */
final class SignalReader {
    private static final Keyword UNREADABLE = Keyword.intern("unreadable");
    private static final Keyword LEFT_OUT = Keyword.intern("left-out");

    private final Codec codec;
    private final Decoder decoder;
    private final int largest;
    private final Consumer<Throwable> leftOut;

    private long unreadable; // values so far
    private long told = 1; // which one is told of next

    private byte[] held = new byte[0]; // of a signal whose end has not come
    private int end;

    // Of the signal that is read.
    private byte[] bytes;
    private int at;
    private int limit;

    /**
     * A reader at the begin of a stream.
     *
     * @param largest the most bytes of a signal
     * @param leftOut is told why a message or a reason was left out
     */
    SignalReader(Codec codec, int largest, Consumer<Throwable> leftOut) {
        this.codec = codec;
        this.decoder = new Decoder(codec);
        this.largest = largest;
        this.leftOut = leftOut;
    }

    /** Reads the next part of the stream, from the position on, and hands on each signal that is complete. */
    void read(byte[] part, int from, Consumer<Signal> signals) {
        byte[] all = part;
        int start = from;
        int stop = part.length;
        if (end > 0) {
            all = joined(part, from);
            start = 0;
            stop = end;
        }
        int rest = readComplete(all, start, stop, signals);
        keep(all, rest, stop);
    }

    private byte[] joined(byte[] part, int from) {
        int added = part.length - from;
        if (held.length - end < added) {
            held = Arrays.copyOf(held, Math.max(end + added, Math.min(2 * held.length, largest)));
        }
        System.arraycopy(part, from, held, end, added);
        end += added;
        return held;
    }

    private int readComplete(byte[] all, int start, int stop, Consumer<Signal> signals) {
        int next = start;
        while (stop - next >= SignalWriter.LENGTH) {
            int length = length(all, next);
            if (stop - next - SignalWriter.LENGTH < length) {
                return next;
            }
            Signal s = signal(all, next + SignalWriter.LENGTH, length);
            if (s != null) {
                signals.accept(s);
            }
            next += SignalWriter.LENGTH + length;
        }
        return next;
    }

    private int length(byte[] all, int i) {
        int length = (all[i] & 255) << 24 | (all[i + 1] & 255) << 16 | (all[i + 2] & 255) << 8 | all[i + 3] & 255;
        if (length < 1 || length > largest) {
            throw new BadStream("A signal of " + Integer.toUnsignedString(length) + " bytes was announced; at most " + largest + " are allowed.");
        }
        return length;
    }

    private void keep(byte[] all, int rest, int stop) {
        int left = stop - rest;
        if (left == 0) {
            held = held.length > 1 << 16 ? new byte[0] : held;
        } else if (all == held) {
            if (rest > 0) {
                System.arraycopy(held, rest, held, 0, left);
            }
        } else {
            held = held.length < left ? new byte[Math.max(left, 1 << 10)] : held;
            System.arraycopy(all, rest, held, 0, left);
        }
        end = left;
    }

    // --- one signal --------------------------------------------------------------------------------------------------

    private Signal signal(byte[] all, int start, int length) {
        bytes = all;
        at = start + 1;
        limit = start + length;
        Kind kind = Kind.of(all[start]);
        if (kind == null) {
            throw new BadStream("A signal of the unknown kind " + all[start] + " has come.");
        }
        return switch (kind) {
            case MESSAGE -> message();
            case EXIT -> exit();
            case EXIT_LINK -> new Signal.ExitLink(pid(), pid(), reason());
            case LINK -> new Signal.Link(pid(), pid());
            case UNLINK -> new Signal.Unlink(pid(), pid(), number());
            case UNLINK_ACK -> new Signal.UnlinkAck(pid(), pid(), number());
            case MONITOR -> new Signal.Monitor(pid(), subject(), ref());
            case DEMONITOR -> new Signal.Demonitor(pid(), subject(), ref());
            case DOWN -> new Signal.Down(subject(), pid(), ref(), reason());
            case SPAWN -> spawn();
            case SPAWN_REPLY -> new Signal.SpawnReply(pid(), ref(), reason());
        };
    }

    private Signal message() {
        Pid from = pidOrNull();
        Object to = subject();
        try {
            Object message = decode();
            return new Signal.Message(from, to, message, context());
        } catch (ExceptionInfo cannot) {
            leaveOut(cannot);
            return null;
        }
    }

    private Signal exit() {
        Pid from = pidOrNull();
        Pid to = pid();
        int before = at;
        Object reason = reason();
        return new Signal.Exit(from, to, reason, at == before ? null : context());
    }

    /** The context values of the sender; null if they cannot be read here. */
    private Object context() {
        try {
            return decode() instanceof IPersistentMap values ? values : null;
        } catch (ExceptionInfo cannot) {
            return null;
        }
    }

    private Signal spawn() {
        Pid from = pid();
        Ref ref = ref();
        Pid leader = pidOrNull();
        boolean link = flag();
        boolean monitor = flag();
        int before = at;
        Object what = reason();
        return new Signal.Spawn(from, ref, leader, what, link, monitor, at == before ? null : context());
    }

    private Object decode() {
        Object value = decoder.read(bytes, at, limit - at);
        at = decoder.position();
        return value;
    }

    private Object reason() {
        try {
            return decode();
        } catch (ExceptionInfo cannot) {
            leaveOut(cannot);
            return PersistentVector.create(UNREADABLE, cannot.getMessage());
        }
    }

    private void leaveOut(ExceptionInfo why) {
        unreadable++;
        if (unreadable == told) {
            told *= 10;
            leftOut.accept(unreadable == 1 ? why : oneOfMany(why));
        }
    }

    private ExceptionInfo oneOfMany(ExceptionInfo why) {
        return new ExceptionInfo(why.getMessage() + " " + unreadable + " values of this connection could not be read until now; the next report comes after "
                + told + ".", (IPersistentMap) why.getData().assoc(LEFT_OUT, unreadable), why);
    }

    private Object part() {
        Object part = part(decoder);
        at = decoder.position();
        return part;
    }

    private Object part(Decoder by) {
        try {
            return by.read(bytes, at, limit - at);
        } catch (ExceptionInfo e) {
            throw new BadStream("A signal cannot be read: " + e.getMessage(), e);
        }
    }

    /**
     * A pid, a reference or the name of a process. A name may be a keyword that this node does not know, after the
     * other one has sent as many as it may. That must not end the connection. So such a name is read by a decoder that
     * keeps nothing: no process here has it, and the keyword goes with the signal.
     */
    private Object subject() {
        try {
            return decode();
        } catch (ExceptionInfo tooMany) {
            Decoder other = new Decoder(codec);
            Object subject = part(other);
            at = other.position();
            return subject;
        }
    }

    private Pid pid() {
        return as(Pid.class, part());
    }

    private Pid pidOrNull() {
        Object pid = part();
        return pid == null ? null : as(Pid.class, pid);
    }

    private Ref ref() {
        return as(Ref.class, part());
    }

    private long number() {
        return as(Long.class, part());
    }

    private boolean flag() {
        return as(Boolean.class, part());
    }

    private static <T> T as(Class<T> wanted, Object x) {
        if (!wanted.isInstance(x)) {
            throw new BadStream("A signal has a " + (x == null ? "nil" : x.getClass().getSimpleName()) + " where a " + wanted.getSimpleName() + " has to be.");
        }
        return wanted.cast(x);
    }
}
