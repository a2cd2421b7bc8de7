package magnetar.cluster.impl;

import java.io.IOException;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import javax.net.ssl.SSLContext;
import org.jgroups.util.DefaultSocketFactory;

/**
 * Makes the TCP sockets of JGroups, which prove themselves before JGroups reads a byte. The one server socket exists
 * already. Sockets of UDP, for multicast discovery, are ordinary ones.
 */
final class ProvenSockets extends DefaultSocketFactory {
    final Handshake handshake;
    final Refusals refusals = new Refusals();
    final SSLContext tls;
    final long handshakeMillis;
    final boolean mayLeaveMachine;
    final ProvingServerSocket server;

    /** The address that other nodes dial. */
    final String advertised;

    private final Set<String> undialed; // peers of the settings, as text

    /** Listens at once; throws if that is not possible. */
    ProvenSockets(Settings settings) throws IOException {
        handshake = new Handshake(settings.cookie, settings.cluster);
        tls = settings.tls;
        handshakeMillis = settings.handshakeMillis;
        mayLeaveMachine = settings.mayLeaveMachine();
        undialed = settings.peers.stream().map(peer -> text(peer.getAddress(), peer.getPort()))
                .collect(Collectors.toCollection(ConcurrentHashMap::newKeySet));
        server = new ProvingServerSocket(this, settings.address, settings.port);
        advertised = settings.advertised == null ? text(settings.address, server.getLocalPort())
                : text(settings.advertised.getAddress(), settings.advertised.getPort());
    }

    /** A place as text, such as {@code 127.0.0.1:7800} or {@code [::1]:7800}. */
    static String text(InetAddress address, int port) {
        String host = address.getHostAddress().replaceFirst("%.*", "");
        return (address instanceof Inet6Address ? "[" + host + "]" : host) + ":" + port;
    }

    /** True if no dial of this peer of the settings has ended yet. Later ones fail also as nodes come and go, which is normal. */
    boolean isFirstDial(String address) {
        return undialed.remove(address);
    }

    void close() {
        server.close();
    }

    @Override
    public Socket createSocket(String service) {
        return new ProvenSocket(this);
    }

    @Override
    public Socket createSocket(String service, String host, int port) {
        throw notUsed();
    }

    @Override
    public Socket createSocket(String service, InetAddress host, int port) {
        throw notUsed();
    }

    @Override
    public Socket createSocket(String service, String host, int port, InetAddress localHost, int localPort) {
        throw notUsed();
    }

    @Override
    public Socket createSocket(String service, InetAddress host, int port, InetAddress localHost, int localPort) {
        throw notUsed();
    }

    @Override
    public ServerSocket createServerSocket(String service) {
        return server;
    }

    @Override
    public ServerSocket createServerSocket(String service, int port) {
        throw notUsed();
    }

    @Override
    public ServerSocket createServerSocket(String service, int port, int backlog) {
        throw notUsed();
    }

    @Override
    public ServerSocket createServerSocket(String service, int port, int backlog, InetAddress bindAddress) {
        throw notUsed();
    }

    private static RuntimeException notUsed() {
        return new UnsupportedOperationException("JGroups' transport makes its sockets unbound and unconnected.");
    }
}
