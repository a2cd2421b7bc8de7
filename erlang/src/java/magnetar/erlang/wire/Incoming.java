package magnetar.erlang.wire;

import clojure.lang.BigInt;
import clojure.lang.ExceptionInfo;
import clojure.lang.IPersistentVector;
import clojure.lang.ISeq;
import clojure.lang.Keyword;
import clojure.lang.RT;
import clojure.lang.Sequential;
import clojure.lang.Tuple;
import java.nio.ByteBuffer;
import java.util.function.Consumer;
import magnetar.etf.Codec;
import magnetar.etf.Decoder;
import magnetar.kernel.process.ForeignRef;
import magnetar.kernel.process.Peer;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.Ref;
import magnetar.kernel.process.Signal;

/**
 * Reads the packets of another node as signals: a header with atoms, a control message, and perhaps a payload.
 *
 * <p>What the other node was free to send may be unreadable here, or be meant for processes of one JVM: then a message is
 * dropped and told of, and in other signals text stands for a reason. Control messages that this node does not know are dropped in the same way. Everything else
 * that is not as it has to be is a {@link BadPacket}.
 *
 * <p>One thread uses it.
 */
final class Incoming {
    private static final int VERSION = 131;
    private static final int HEADER = 68;
    private static final int FIRST_FRAGMENT = 69;
    private static final int FRAGMENT = 70;
    private static final int PASS_THROUGH = 112;
    private static final int TWO_LONGS = 16;
    private static final Keyword LINK = Keyword.intern("link");
    private static final Keyword MONITOR = Keyword.intern("monitor");
    private static final Keyword UNREADABLE = Keyword.intern("unreadable");

    private final Peer peer;
    private final boolean headers;
    private final Consumer<Throwable> dropped;
    private final Consumer<Throwable> unknown;
    private final Decoder decoder;
    private final AtomCache cache;
    private final Fragments fragments;
    private boolean unknownTold;

    // Of the packet that is read.
    private byte[] bytes;
    private int at;
    private int end;
    private Object[] atoms; // null if each term begins with the byte of the version

    /**
     * A reader at the begin of a connection.
     *
     * @param headers whether packets have headers with atoms
     * @param largest the most bytes of a message
     * @param dropped is told why a message or a reason was left out
     * @param unknown is told of the first control message that this node does not know
     */
    Incoming(Peer peer, boolean headers, Codec codec, int largest, Consumer<Throwable> dropped, Consumer<Throwable> unknown) {
        this.peer = peer;
        this.headers = headers;
        this.dropped = dropped;
        this.unknown = unknown;
        this.decoder = new Decoder(codec);
        this.cache = new AtomCache(decoder);
        this.fragments = new Fragments(largest);
    }

    /** Reads a packet, which has at least one byte. Returns its signal, or null if it has nothing to handle. */
    Signal read(byte[] packet, int length) {
        bytes = packet;
        at = 0;
        end = length;
        try {
            return headers ? withHeader() : passedThrough();
        } finally {
            bytes = null;
            atoms = null;
        }
    }

    private Signal passedThrough() {
        expect(PASS_THROUGH);
        atoms = null;
        return signal();
    }

    private Signal withHeader() {
        expect(VERSION);
        if (at == end) {
            throw new BadPacket("A packet of one byte has come.");
        }
        int kind = bytes[at++] & 255;
        return switch (kind) {
            case HEADER -> {
                readAtoms();
                yield signal();
            }
            case FIRST_FRAGMENT -> firstFragment();
            case FRAGMENT -> fragment();
            default -> throw new BadPacket("A packet of the unknown kind " + kind + " has come.");
        };
    }

    private void expect(int first) {
        if ((bytes[at] & 255) != first) {
            throw new BadPacket("A packet begins with the byte " + (bytes[at] & 255) + " where " + first + " has to be.");
        }
        at++;
    }

    private void readAtoms() {
        try {
            atoms = cache.read(bytes, at, end);
        } catch (ExceptionInfo e) {
            throw new BadPacket("An atom for the cache cannot be read: " + e.getMessage(), e);
        }
        at = cache.position();
    }

    private ByteBuffer sequenceAndNumber() {
        if (end - at < TWO_LONGS) {
            throw new BadPacket("A part of a message is too short.");
        }
        at += TWO_LONGS;
        return ByteBuffer.wrap(bytes, at - TWO_LONGS, TWO_LONGS);
    }

    private Signal firstFragment() {
        ByteBuffer b = sequenceAndNumber();
        long sequence = b.getLong();
        long number = b.getLong();
        readAtoms();
        if (number == 1) {
            return signal();
        }
        fragments.begin(sequence, number, atoms, bytes, at, end);
        return null;
    }

    private Signal fragment() {
        ByteBuffer b = sequenceAndNumber();
        Fragments.Message m = fragments.add(b.getLong(), b.getLong(), bytes, at, end);
        if (m == null) {
            return null;
        }
        atoms = m.atoms();
        bytes = m.bytes();
        at = 0;
        end = m.size();
        return signal();
    }

    // --- one signal --------------------------------------------------------------------------------------------------

    private Object term() {
        Object value = atoms == null ? decoder.read(bytes, at, end - at) : decoder.read(bytes, at, end - at, atoms);
        at = decoder.position();
        return value;
    }

    private Signal signal() {
        Object control;
        try {
            control = term();
        } catch (ExceptionInfo e) {
            throw new BadPacket("A control message cannot be read: " + e.getMessage(), e);
        }
        if (!(control instanceof IPersistentVector c && c.length() > 0 && c.nth(0) instanceof Long op)) {
            throw new BadPacket("A control message is no tuple with a number.");
        }
        return op < 0 || op > 1000 ? unknown(op) : signal(op.intValue(), c);
    }

    private Signal signal(int op, IPersistentVector c) {
        return switch (op) {
            case Op.SEND, Op.SEND_TT -> message(null, pid(c, 2));
            case Op.SEND_SENDER, Op.SEND_SENDER_TT -> message(pid(c, 1), pid(c, 2));
            case Op.REG_SEND, Op.REG_SEND_TT -> message(pid(c, 1), part(c, 3));
            case Op.ALIAS_SEND, Op.ALIAS_SEND_TT -> message(pid(c, 1), as(Ref.class, part(c, 2)));
            case Op.MONITOR -> new Signal.Monitor(theirs(c, 1), part(c, 2), as(ForeignRef.class, part(c, 3)));
            case Op.DEMONITOR -> new Signal.Demonitor(theirs(c, 1), part(c, 2), as(ForeignRef.class, part(c, 3)));
            case Op.DOWN -> new Signal.Down(part(c, 1), pid(c, 2), as(Ref.class, part(c, 3)), part(c, 4));
            case Op.PAYLOAD_DOWN -> new Signal.Down(part(c, 1), pid(c, 2), as(Ref.class, part(c, 3)), reason());
            case Op.GROUP_LEADER -> null;
            case Op.SPAWN_REQUEST, Op.SPAWN_REQUEST_TT -> spawn(c);
            case Op.SPAWN_REPLY, Op.SPAWN_REPLY_TT -> new Signal.SpawnReply(pid(c, 2), as(Ref.class, part(c, 1)), started(c));
            default -> aboutLinks(op, c);
        };
    }

    private Signal aboutLinks(int op, IPersistentVector c) {
        return switch (op) {
            case Op.LINK -> new Signal.Link(theirs(c, 1), pid(c, 2));
            case Op.UNLINK_ID -> new Signal.Unlink(theirs(c, 2), pid(c, 3), number(c, 1));
            case Op.UNLINK_ID_ACK -> new Signal.UnlinkAck(theirs(c, 2), pid(c, 3), number(c, 1));
            case Op.EXIT -> new Signal.ExitLink(pid(c, 1), pid(c, 2), part(c, 3));
            case Op.EXIT_TT -> new Signal.ExitLink(pid(c, 1), pid(c, 2), part(c, 4));
            case Op.PAYLOAD_EXIT, Op.PAYLOAD_EXIT_TT -> new Signal.ExitLink(pid(c, 1), pid(c, 2), reason());
            case Op.EXIT2 -> new Signal.Exit(pid(c, 1), pid(c, 2), part(c, 3), null);
            case Op.EXIT2_TT -> new Signal.Exit(pid(c, 1), pid(c, 2), part(c, 4), null);
            case Op.PAYLOAD_EXIT2, Op.PAYLOAD_EXIT2_TT -> new Signal.Exit(pid(c, 1), pid(c, 2), reason(), null);
            default -> unknown(op);
        };
    }

    private Signal message(Pid from, Object to) {
        if (at == end) {
            throw new BadPacket("A control message for a message has none behind it.");
        }
        try {
            Object message = term();
            if (Requests.isOwn(message)) {
                dropped.accept(new IllegalArgumentException("The node " + peer.name() + " has sent a message that begins with a keyword of this library."));
                return null;
            }
            Ref alias = Requests.answered(message);
            return new Signal.Message(from, alias == null ? to : alias, Requests.incoming(peer, message), null);
        } catch (ExceptionInfo cannot) {
            dropped.accept(cannot);
            return null;
        }
    }

    private Signal spawn(IPersistentVector c) {
        if (!(part(c, 4) instanceof IPersistentVector called && called.length() == 3)) {
            throw new BadPacket("A request for a process names no function.");
        }
        Object options = part(c, 5);
        return new Signal.Spawn(theirs(c, 2), as(ForeignRef.class, part(c, 1)), pid(c, 3), work(called), hasOption(options, LINK),
                hasOption(options, MONITOR), null);
    }

    /** The module, the function and its arguments, or why the arguments cannot be read here. */
    private Object work(IPersistentVector called) {
        if (at == end) {
            throw new BadPacket("A request for a process has no arguments behind it.");
        }
        try {
            return Tuple.create(called.nth(0), called.nth(1), as(Sequential.class, term()));
        } catch (ExceptionInfo cannot) {
            dropped.accept(cannot);
            return cannot;
        }
    }

    /** Monitors may have options of their own, which are for the node that asks. */
    private static boolean hasOption(Object options, Keyword wanted) {
        for (ISeq s = RT.seq(as(Sequential.class, options)); s != null; s = s.next()) {
            if (s.first() == wanted || s.first() instanceof IPersistentVector v && v.length() > 0 && v.nth(0) == wanted) {
                return true;
            }
        }
        return false;
    }

    /** The new process, or the reason why it was not started. */
    private Object started(IPersistentVector c) {
        return part(c, 4) instanceof Pid ? theirs(c, 4) : part(c, 4);
    }

    private Object reason() {
        if (at == end) {
            throw new BadPacket("A control message for an exit has no reason behind it.");
        }
        try {
            return term();
        } catch (ExceptionInfo cannot) {
            dropped.accept(cannot);
            return Tuple.create(UNREADABLE, cannot.getMessage());
        }
    }

    private Signal unknown(long op) {
        if (!unknownTold) {
            unknownTold = true;
            unknown.accept(new UnsupportedOperationException("The node " + peer.name() + " has sent the control message " + op
                    + ", which this node does not know. It and all others of the connection are dropped."));
        }
        return null;
    }

    // --- its parts ---------------------------------------------------------------------------------------------------

    private static Object part(IPersistentVector c, int i) {
        if (i >= c.length()) {
            throw new BadPacket("A control message " + c.nth(0) + " has only " + c.length() + " parts.");
        }
        return c.nth(i);
    }

    private static Pid pid(IPersistentVector c, int i) {
        return as(Pid.class, part(c, i));
    }

    /** A pid of the other node. A link or monitor of another one would outlive the connection. */
    private Pid theirs(IPersistentVector c, int i) {
        Pid pid = pid(c, i);
        if (pid.creation() != peer.creation() || !peer.name().equals(pid.nodeName())) {
            throw new BadPacket("The process of a link or a monitor is on another node than " + peer.name() + ".");
        }
        return pid;
    }

    private static long number(IPersistentVector c, int i) {
        Object n = part(c, i);
        return n instanceof BigInt big ? big.toBigInteger().longValue() : as(Long.class, n);
    }

    private static <T> T as(Class<T> wanted, Object x) {
        if (!wanted.isInstance(x)) {
            throw new BadPacket("A control message has a " + (x == null ? "nil" : x.getClass().getSimpleName()) + " where a "
                    + wanted.getSimpleName() + " has to be.");
        }
        return wanted.cast(x);
    }
}
