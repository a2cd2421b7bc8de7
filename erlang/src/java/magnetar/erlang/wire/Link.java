package magnetar.erlang.wire;

import java.io.BufferedInputStream;
import java.io.EOFException;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import magnetar.etf.Codec;
import magnetar.kernel.process.Connection;
import magnetar.kernel.process.Outbox;
import magnetar.kernel.process.Peer;
import magnetar.kernel.process.Peers;
import magnetar.kernel.process.Signal;
import magnetar.kernel.report.Failures;

/**
 * One connection with a node of Erlang, from the end of its handshake until its socket is closed.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Its reader, a platform thread, begins the connection of the kernel, receives its signals and ends it, in this
 *       order. A virtual thread would take a carrier for each packet. The reader first waits for the end of the reader
 *       of the connection before this one, if there is one. So links and monitors of the old connection fire before the first signal of
 *       the new one, and no two threads handle signals of one node.
 *   <li>Its writer, a virtual thread, takes from the outbox until that is closed, and then closes the socket. After each
 *       take it adds parts of large messages. A closed socket ends both threads, wherever they are.
 *   <li>When {@link #awaitEnd} returns, the links and monitors have fired, and no thread handles a signal.
 * </ol>
 *
 * <p>Lock order: none of its own. The outbox and the kernel have their locks.
 */
final class Link {
    /** The most bytes of a message, of a packet, and of the parts of messages that are not complete. */
    static final int LARGEST = 1 << 27;

    private static final int BUFFER = 1 << 16;
    private static final int SILENT_TICKS = 5;

    private final Links links;
    private final boolean visible;
    private final Peer peer;
    private final Connection connection;
    private final Socket socket; // which is closed
    private final Socket talk; // which is read and written: the same, or TLS over it
    private final Link before;
    private final Outbox outbox;
    private final Parts parts;
    private final Outgoing outgoing;
    private final Incoming incoming;
    private final Log log;
    private final CountDownLatch ended = new CountDownLatch(1);
    private final AtomicBoolean hasToldOverflow = new AtomicBoolean();

    // Of the reader.
    private final byte[] small = new byte[BUFFER];
    private long unreadable;
    private long told = 1; // which unreadable value is told of next

    // Written by the reader, read by the thread that ticks.
    private volatile long received;

    // Of the thread that ticks.
    private long receivedBefore;
    private int silent;

    private final CompletableFuture<Boolean> up = new CompletableFuture<>();
    private volatile boolean sends; // signals can be sent
    private volatile boolean closed;

    /**
     * A connection whose handshake has ended.
     *
     * @param socket the socket, which is closed at the end
     * @param talk the socket that is read and written: the same one, or TLS over it
     * @param before the connection with a node of this name before this one, which is closed; or null
     */
    Link(Links links, Handshake.Other other, Settings own, Codec codec, Socket socket, Socket talk, Link before, Log log) {
        this.links = links;
        this.visible = (other.flags() & Flags.PUBLISHED) != 0;
        this.peer = Peers.peer(other.name(), other.creation(), links);
        this.connection = new Connection(peer);
        this.socket = socket;
        this.talk = talk;
        this.before = before;
        this.log = log;
        boolean headers = (other.flags() & own.flags() & Flags.HEADER) != 0;
        this.outbox = new Outbox(peer.name(), own.buffer(), Long.MAX_VALUE);
        this.parts = new Parts(peer.name(), own.buffer(), outbox);
        boolean takesParts = (other.flags() & own.flags() & Flags.FRAGMENTS) != 0;
        this.outgoing = new Outgoing(headers, (other.flags() & Flags.SPAWN) != 0, codec, outbox, takesParts ? parts : null,
                failed -> report("an answer to", failed));
        this.incoming = new Incoming(peer, headers, codec, LARGEST, this::dropped, unknown -> report("the connection with", unknown));
    }

    /** Begins. The function is called when the connection has ended. */
    void start(Runnable onEnd) {
        Thread.ofPlatform().daemon().inheritInheritableThreadLocals(false).name("magnetar-erlang " + peer.name()).start(() -> run(onEnd));
    }

    String name() {
        return peer.name();
    }

    /** Gets true when signals can be sent, and false if the connection has ended before. */
    CompletableFuture<Boolean> up() {
        return up;
    }

    /** Does the other node list itself? */
    boolean isVisible() {
        return visible;
    }

    boolean isUp() {
        return !closed && sends;
    }

    /** True from the moment on when it ends. */
    boolean isClosed() {
        return closed;
    }

    // --- the reader --------------------------------------------------------------------------------------------------

    private void run(Runnable onEnd) {
        try {
            if (before != null) {
                before.awaitEnd();
            }
            socket.getInputStream(); // throws if it was closed meanwhile
            links.put(connection, this);
            peer.connect(links, connection);
            Thread.ofVirtual().name("magnetar-erlang-writer").start(this::write);
            sends = true;
            links.tellUp(this);
            up.complete(true); // what waits for that finds the watchers told
            read();
        } catch (IOException e) {
            // The other node has ended, or this side has closed the socket.
        } catch (BadPacket e) {
            log.warn("The connection with the node " + peer.name() + " is closed. " + e.getMessage());
        } catch (Throwable t) {
            report("the connection with", t);
        } finally {
            end(onEnd);
        }
    }

    private void end(Runnable onEnd) {
        close();
        try {
            connection.down();
        } finally {
            links.remove(connection);
            try {
                links.tellDown(this);
            } finally {
                up.complete(false);
                onEnd.run();
                ended.countDown();
            }
        }
    }

    private void read() throws IOException {
        InputStream in = new BufferedInputStream(new Counted(talk.getInputStream()), BUFFER);
        while (!closed) {
            int length = length(in);
            if (length == 0) {
                continue;
            }
            byte[] packet = length <= small.length ? small : in.readNBytes(length); // which grows with what comes
            int n = packet == small ? in.readNBytes(small, 0, length) : packet.length;
            if (n < length) {
                throw new EOFException();
            }
            Signal signal = incoming.read(packet, length);
            if (signal != null) {
                if (signal instanceof Signal.Spawn request) {
                    outgoing.isAsked(request);
                }
                connection.receive(signal);
            }
        }
    }

    private int length(InputStream in) throws IOException {
        if (in.readNBytes(small, 0, 4) < 4) {
            throw new EOFException();
        }
        int length = (small[0] & 255) << 24 | (small[1] & 255) << 16 | (small[2] & 255) << 8 | small[3] & 255;
        if (length < 0 || length > LARGEST) {
            throw new BadPacket("A packet of " + Integer.toUnsignedString(length) + " bytes was announced; at most " + LARGEST + " are allowed.");
        }
        return length;
    }

    /** Counts the reads, so that a slow packet is no silence. */
    private final class Counted extends FilterInputStream {
        Counted(InputStream in) {
            super(in);
        }

        @Override
        public int read(byte[] bytes, int from, int n) throws IOException {
            int read = super.read(bytes, from, n);
            received = received + 1; // one thread writes it
            return read;
        }
    }

    /** Tells of the first value that was dropped, the 10th, the 100th and so on. */
    private void dropped(Throwable why) {
        unreadable++;
        if (unreadable == told) {
            told *= 10;
            report("a message that cannot be read here, of", why);
        }
    }

    private void report(String what, Throwable t) {
        Failures.report(what + " the node " + peer.name(), Thread.currentThread(), t);
    }

    // --- sending -----------------------------------------------------------------------------------------------------

    void send(Signal signal) {
        outgoing.add(signal);
    }

    void awaitRoom() throws InterruptedException {
        parts.awaitRoom();
    }

    private void write() {
        byte[] part = new byte[BUFFER];
        try {
            for (int n = outbox.take(part, 0); n >= 0; n = outbox.take(part, 0)) {
                talk.getOutputStream().write(part, 0, n);
                parts.feed();
            }
            tellOverflow();
        } catch (IOException e) {
            // The reader finds the same.
        } catch (InterruptedException e) {
            throw new IllegalStateException(e); // nothing interrupts this thread
        } finally {
            close();
        }
    }

    /** Closes the connection, with a line in the log, if too much was added without a wait. */
    private void tellOverflow() {
        if ((outbox.hasOverflowed() || parts.hasOverflowed()) && hasToldOverflow.compareAndSet(false, true)) {
            log.warn("The connection with the node " + peer.name() + " is closed, because it does not read what is sent to it.");
            close();
        }
    }

    // --- ticks -------------------------------------------------------------------------------------------------------

    /**
     * Called four times in the time that a connection may be silent. Says that this node is there, unless something else
     * waits to be sent, and closes the connection if the other one was silent for too long, or too much waits to be sent.
     */
    void tick() {
        tellOverflow(); // the writer may wait for a socket that nothing reads
        outgoing.tick();
        silent = received == receivedBefore ? silent + 1 : 0;
        receivedBefore = received;
        if (silent == SILENT_TICKS) {
            log.warn("The connection with the node " + peer.name() + " is closed, because it has said nothing for too long.");
            close();
        }
    }

    // --- the end -----------------------------------------------------------------------------------------------------

    /** Sends what waits, and closes. Nothing more is taken in. */
    void finish() {
        parts.finish();
    }

    /** Drops what waits, and closes. */
    void close() {
        closed = true;
        outbox.close();
        parts.close();
        try {
            socket.close();
        } catch (IOException e) {
            // It is closed.
        }
    }

    /** Waits until the connection has ended. Interrupts end no wait: they are kept for later. */
    void awaitEnd() {
        awaitEnd(Long.MAX_VALUE);
    }

    /** The same for so many ms at most; false if it has not. */
    boolean awaitEnd(long ms) {
        boolean interrupted = false;
        try {
            for (;;) {
                try {
                    return ended.await(ms, TimeUnit.MILLISECONDS);
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** For a connection whose reader could not be started. */
    void neverBegan() {
        close();
        up.complete(false);
        ended.countDown();
    }
}
