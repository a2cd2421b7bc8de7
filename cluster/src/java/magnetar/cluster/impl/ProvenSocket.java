package magnetar.cluster.impl;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.net.ssl.ExtendedSSLSession;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLSocket;

/**
 * A connection to another node. JGroups gets it only after both sides have proven themselves. With TLS, its streams
 * carry the decrypted bytes.
 *
 * <p>Closing it closes the TCP connection at once, without TLS's goodbye, which may block. JGroups sends the length of
 * each message, so an end that comes too early is not taken for the end of the data.
 */
final class ProvenSocket extends Socket {
    private static final String BINDING = "EXPORTER-Channel-Binding"; // RFC 9266
    private static final int BINDING_LENGTH = 32;

    private final ProvenSockets sockets;

    private volatile InputStream in;
    private volatile OutputStream out;

    ProvenSocket(ProvenSockets sockets) {
        this.sockets = sockets;
    }

    /** Connects, and returns when both sides have proven themselves. */
    @Override
    public void connect(SocketAddress endpoint, int timeout) throws IOException {
        InetSocketAddress place = (InetSocketAddress) endpoint;
        String dialed = ProvenSockets.text(place.getAddress(), place.getPort());
        try {
            reach(place, timeout, dialed);
            prove(() -> {
                byte[] binding = secure(true);
                sockets.handshake.dial(getInputStream(), getOutputStream(), dialed, binding);
            });
        } catch (IOException e) {
            log(e, "The node at " + dialed + " was not joined, since ",
                    ". Both nodes need the same cookie, the same name of the cluster, and TLS or not alike.");
            throw e;
        }
    }

    /**
     * Connects, and never in plain text outside of the loopback address. The settings were checked for that, and another
     * node may tell further addresses.
     */
    private void reach(InetSocketAddress place, int timeout, String dialed) throws IOException {
        if (!sockets.mayLeaveMachine && !place.getAddress().isLoopbackAddress()) {
            close();
            sockets.refusals.log("The node at " + dialed + " was not dialed, since it is outside of the loopback address."
                    + " Give this node :tls, or :insecure true in a network that you trust.");
            throw new IOException("It would be plain text.");
        }
        boolean first = sockets.isFirstDial(dialed);
        try {
            super.connect(place, timeout);
        } catch (IOException e) {
            if (first) {
                sockets.refusals.log("The peer at " + dialed + " does not answer (" + e.getMessage() + "). This node goes on dialing it.");
            }
            throw e;
        }
    }

    /** Returns when both sides of an accepted connection have proven themselves. */
    void proveAccepted() throws IOException {
        InetSocketAddress peer = (InetSocketAddress) getRemoteSocketAddress();
        try {
            prove(() -> {
                byte[] binding = secure(false);
                sockets.handshake.accept(getInputStream(), getOutputStream(), sockets.advertised, binding);
            });
        } catch (IOException e) {
            log(e, "A connection from " + ProvenSockets.text(peer.getAddress(), peer.getPort()) + " was refused, since ",
                    ". If it is a node of this cluster, give it the same cookie, the same name of the cluster, and TLS or not alike.");
            throw e;
        }
    }

    private interface Proof {
        void run() throws IOException;
    }

    /** Runs a handshake. A second thread closes the socket after a time, so bytes that come one by one do not extend it. */
    private void prove(Proof proof) throws IOException {
        CountDownLatch done = new CountDownLatch(1);
        AtomicBoolean late = new AtomicBoolean();
        Thread.ofVirtual().name("magnetar-cluster-handshake").start(() -> closeUnless(done, late));
        boolean good = false;
        try {
            proof.run();
            good = !late.get();
        } catch (IOException e) {
            throw late.get() ? new Handshake.Refused("it did not prove itself in " + sockets.handshakeMillis + " ms") : e;
        } finally {
            done.countDown();
            if (!good) {
                close();
            }
        }
    }

    private void closeUnless(CountDownLatch done, AtomicBoolean late) {
        try {
            if (!done.await(sockets.handshakeMillis, TimeUnit.MILLISECONDS)) {
                late.set(true);
                close();
            }
        } catch (InterruptedException | IOException e) {
            late.set(true);
        }
    }

    /** Begins TLS, if it is configured. Returns the channel binding of RFC 9266, which is empty without TLS. */
    private byte[] secure(boolean dialing) throws IOException {
        SSLContext tls = sockets.tls;
        if (tls == null) {
            return new byte[0];
        }
        SSLSocket secure = (SSLSocket) tls.getSocketFactory().createSocket(this, getInetAddress().getHostAddress(), getPort(), true);
        secure.setUseClientMode(dialing);
        secure.setEnabledProtocols(new String[] {"TLSv1.3"});
        if (!dialing) {
            secure.setNeedClientAuth(true);
        }
        secure.startHandshake();
        byte[] binding = ((ExtendedSSLSession) secure.getSession()).exportKeyingMaterialData(BINDING, null, BINDING_LENGTH);
        in = secure.getInputStream();
        out = secure.getOutputStream();
        return binding;
    }

    /** Logs why a handshake failed, unless the connection just ended, as by a health check or a node that leaves. */
    private void log(IOException e, String before, String after) {
        if (e instanceof Handshake.Refused) {
            sockets.refusals.log(before + e.getMessage() + after);
        } else if (e instanceof SSLException && !(e.getCause() instanceof EOFException)) {
            sockets.refusals.log(before + "TLS failed (" + e.getMessage() + ")" + after);
        }
    }

    @Override
    public InputStream getInputStream() throws IOException {
        return in == null ? super.getInputStream() : in;
    }

    @Override
    public OutputStream getOutputStream() throws IOException {
        return out == null ? super.getOutputStream() : out;
    }
}
