package magnetar.cluster.impl;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketException;
import java.util.ArrayDeque;

/**
 * Accepts connections whose other side has proven itself. Each handshake has a virtual thread of its own, so a slow
 * or silent program does not delay the others.
 *
 * <p>At most {@link #MAX_UNPROVEN} handshakes run at a time. One more closes the oldest of them, so that a flood
 * of silent connections does not keep a node out, whose handshake takes a few milliseconds.
 */
final class ProvingServerSocket extends ServerSocket {
    /** The most connections that have not proven themselves. */
    static final int MAX_UNPROVEN = 64;

    private static final int BACKLOG = 128;

    private final ProvenSockets sockets;

    // Guarded by `unproven`.
    private final ArrayDeque<ProvenSocket> unproven = new ArrayDeque<>();
    private final ArrayDeque<ProvenSocket> proven = new ArrayDeque<>();
    private boolean accepting;
    private boolean closed;

    /** Listens at a place, for the port 0 at a free one. It accepts from the first call of `accept`. */
    ProvingServerSocket(ProvenSockets sockets, InetAddress address, int port) throws IOException {
        this.sockets = sockets;
        boolean bound = false;
        try {
            super.setReuseAddress(true);
            super.bind(new InetSocketAddress(address, port), BACKLOG);
            bound = true;
        } finally {
            if (!bound) {
                super.close();
            }
        }
    }

    /** Does nothing: it is bound already. JGroups calls it. */
    @Override
    public void bind(SocketAddress endpoint, int backlog) {}

    /** Does nothing: it is bound already. JGroups calls it. */
    @Override
    public void setReuseAddress(boolean on) {}

    @Override
    public Socket accept() throws IOException {
        synchronized (unproven) {
            if (!accepting && !closed) {
                accepting = true;
                Thread.ofVirtual().name("magnetar-cluster-acceptor").start(this::acceptAll);
            }
            while (proven.isEmpty()) {
                if (closed) {
                    throw new SocketException("closed");
                }
                waitForProven();
            }
            return proven.poll();
        }
    }

    private void waitForProven() throws IOException {
        try {
            unproven.wait();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new SocketException("interrupted");
        }
    }

    private void acceptAll() {
        while (!isClosed()) {
            ProvenSocket socket = new ProvenSocket(sockets);
            try {
                implAccept(socket);
                begin(socket);
            } catch (IOException e) {
                close(socket);
                if (!isClosed()) {
                    pauseAfterFailure();
                }
            }
        }
    }

    /** Waits before the next try: without free descriptors each fails at once. */
    private static void pauseAfterFailure() {
        try {
            Thread.sleep(10);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void begin(ProvenSocket socket) {
        ProvenSocket oldest = null;
        synchronized (unproven) {
            if (closed) {
                close(socket);
                return;
            }
            unproven.add(socket);
            if (unproven.size() > MAX_UNPROVEN) {
                oldest = unproven.poll();
            }
        }
        close(oldest);
        Thread.ofVirtual().name("magnetar-cluster-handshake").start(() -> prove(socket));
    }

    private void prove(ProvenSocket socket) {
        boolean good = false;
        try {
            socket.proveAccepted();
            good = true;
        } catch (IOException | RuntimeException e) {
            close(socket); // it is logged already
        }
        synchronized (unproven) {
            boolean kept = unproven.remove(socket);
            if (good && kept && !closed) {
                proven.add(socket);
                unproven.notifyAll();
                return;
            }
        }
        close(socket);
    }

    @Override
    public void close() {
        ArrayDeque<ProvenSocket> left = new ArrayDeque<>();
        synchronized (unproven) {
            closed = true;
            left.addAll(unproven);
            left.addAll(proven);
            unproven.clear();
            proven.clear();
            unproven.notifyAll();
        }
        try {
            super.close();
        } catch (IOException e) {
            sockets.refusals.log("The port of this node may still be open: " + e.getMessage() + ".");
        }
        left.forEach(ProvingServerSocket::close);
    }

    private static void close(Socket socket) {
        try {
            if (socket != null) {
                socket.close();
            }
        } catch (IOException e) {
            return; // it is closed all the same
        }
    }
}
