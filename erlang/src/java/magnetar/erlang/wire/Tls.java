package magnetar.erlang.wire;

import java.io.IOException;
import java.net.Socket;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/**
 * TLS between two nodes, as Erlang's {@code inet_tls} has it. Both sides have a certificate. The side that dials checks
 * that the certificate is of the host in the name of the other node.
 *
 * <p>Invariant: the handshake of TLS ends by the deadline, however slowly the bytes come: then the socket is closed.
 *
 * <p>The sockets of TLS are never closed, because that waits for a writer that waits for the other side. The socket below is.
 */
final class Tls {
    private static final String[] PROTOCOLS = {"TLSv1.3", "TLSv1.2"};

    private Tls() {}

    /** The connected socket with TLS, of the side that dials the host; of the other side if the host is null. */
    static Socket secure(Socket s, SSLContext context, String host, long deadline) throws IOException {
        String named = host == null ? s.getInetAddress().getHostAddress() : host;
        SSLSocket secure = (SSLSocket) context.getSocketFactory().createSocket(s, named, s.getPort(), false);
        secure.setUseClientMode(host != null);
        secure.setEnabledProtocols(PROTOCOLS);
        if (host == null) {
            secure.setNeedClientAuth(true);
        } else {
            SSLParameters parameters = secure.getSSLParameters();
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            secure.setSSLParameters(parameters);
        }
        CompletableFuture<Boolean> over = new CompletableFuture<>();
        over.completeOnTimeout(false, Math.max(1, (deadline - System.nanoTime()) / 1_000_000), TimeUnit.MILLISECONDS)
                .thenAccept(inTime -> closeUnless(inTime, s));
        try {
            secure.startHandshake();
        } catch (IOException e) {
            if (!over.complete(true)) {
                throw new Refused("It did not answer in time.");
            }
            throw e instanceof SSLException ofTls ? failed(ofTls) : e;
        } finally {
            over.complete(true);
        }
        return secure;
    }

    private static void closeUnless(boolean inTime, Socket s) {
        if (!inTime) {
            Node.closeQuietly(s);
        }
    }

    /** What is logged of a failure. */
    static Refused failed(SSLException e) {
        return new Refused("TLS has failed: " + e.getMessage());
    }
}
