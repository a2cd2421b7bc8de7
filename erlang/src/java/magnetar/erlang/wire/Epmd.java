package magnetar.erlang.wire;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * The daemon that knows the ports of the nodes on its machine: asks it for a port, and registers this node with it. A
 * registration lasts as long as its connection. When the daemon has ended, this registers again as soon as there is
 * another one.
 *
 * <p>Source: the chapter "EPMD Protocol" of Erlang's distribution protocol.
 */
final class Epmd implements Closeable {
    private static final int REGISTER = 120;
    private static final int REGISTERED = 121;
    private static final int REGISTERED_LONG = 118; // with a creation of 32 bits
    private static final int FIND = 122;
    private static final int FOUND = 119;
    private static final int VISIBLE = 77;
    private static final int HIDDEN = 72;
    private static final int VERSION = 6; // of the distribution
    private static final int PAUSE_MS = 1000;

    private final InetSocketAddress address;
    private final ByteBuffer request;
    private final String name;
    private final int limit;

    // Guarded by its lock.
    private Socket socket;
    private boolean closed;

    private Epmd(Settings own, int port, int limit) {
        this.address = own.epmd();
        this.name = Settings.alive(own.name());
        this.limit = limit;
        byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
        this.request = ByteBuffer.allocate(16 + bytes.length).put((byte) REGISTER).putShort((short) port)
                .put((byte) (own.visible() ? VISIBLE : HIDDEN)).put((byte) 0).putShort((short) VERSION).putShort((short) VERSION)
                .putShort((short) bytes.length).put(bytes).putShort((short) 0);
    }

    /** The port of the node with this name, by the daemon there; -1 if it knows none. */
    static int port(InetSocketAddress at, String alive, long deadline) throws IOException {
        try (Socket s = open(at, deadline)) {
            Letters letters = new Letters(s, deadline);
            byte[] bytes = alive.getBytes(StandardCharsets.UTF_8);
            letters.send(ByteBuffer.allocate(1 + bytes.length).put((byte) FIND).put(bytes));
            ByteBuffer answer = letters.bytes(2);
            if (answer.get() != FOUND) {
                throw new IOException("EPMD at " + text(at) + " has not answered as EPMD does.");
            }
            return answer.get() == 0 ? letters.bytes(2).getShort() & 0xffff : -1;
        }
    }

    /**
     * Registers the node, which listens at the port.
     *
     * @param limit how many ms the daemon has to answer
     * @throws IOException if there is no daemon, or another node has the name
     */
    static Epmd register(Settings own, int port, int limit) throws IOException {
        Epmd registration = new Epmd(own, port, limit);
        Socket first = registration.register();
        registration.keep(first);
        Thread.ofVirtual().name("magnetar-erlang-epmd").start(() -> registration.follow(first));
        return registration;
    }

    private Socket register() throws IOException {
        long deadline = System.nanoTime() + limit * 1_000_000L;
        Socket s;
        try {
            s = open(address, deadline);
        } catch (IOException e) {
            throw new IOException("EPMD does not listen at " + text(address) + ": start it with `epmd -daemon`, or give :epmd false.", e);
        }
        try {
            Letters letters = new Letters(s, deadline);
            letters.send(request.duplicate());
            ByteBuffer answer = letters.bytes(2);
            int kind = answer.get();
            if (kind != REGISTERED && kind != REGISTERED_LONG) {
                throw new EOFException();
            }
            if (answer.get() != 0) {
                throw new IOException("EPMD at " + text(address) + " has a node " + name + " already: take another name.");
            }
            letters.bytes(kind == REGISTERED ? 2 : 4); // a creation, where a node has no other one
            letters.end();
            return s;
        } catch (EOFException e) {
            s.close();
            throw new IOException("EPMD at " + text(address) + " has not answered as EPMD does.", e);
        } catch (Throwable t) {
            s.close();
            throw t;
        }
    }

    private static String text(InetSocketAddress at) {
        return (at.isUnresolved() ? at.getHostString() : at.getAddress().getHostAddress()) + ":" + at.getPort();
    }

    private static Socket open(InetSocketAddress at, long deadline) throws IOException {
        Socket s = new Socket();
        try {
            s.connect(at, (int) Math.max(1, (deadline - System.nanoTime()) / 1_000_000));
            return s;
        } catch (Throwable t) {
            s.close();
            throw t;
        }
    }

    /** Keeps the connection; false, and closes it, if this is closed. */
    private synchronized boolean keep(Socket s) throws IOException {
        if (closed) {
            s.close();
        }
        socket = s;
        return !closed;
    }

    /** Waits for the end of the connection, and registers again, until this is closed. */
    private void follow(Socket first) {
        Socket s = first;
        while (s != null) {
            try (Socket current = s) {
                while (current.getInputStream().read() >= 0) {
                    // EPMD says nothing.
                }
            } catch (IOException ended) {
                // It is gone.
            }
            s = again();
        }
    }

    private Socket again() {
        while (!isClosed()) {
            try {
                Socket s = register();
                return keep(s) ? s : null;
            } catch (IOException notYet) {
                pause();
            }
        }
        return null;
    }

    private synchronized void pause() {
        if (!closed) {
            try {
                wait(PAUSE_MS);
            } catch (InterruptedException e) {
                closed = true;
            }
        }
    }

    private synchronized boolean isClosed() {
        return closed;
    }

    /** Ends the registration. */
    @Override
    public synchronized void close() throws IOException {
        closed = true;
        notifyAll();
        socket.close();
    }
}
