package magnetar.cluster.impl;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import javax.net.ssl.SSLContext;

/** How a node joins its cluster. The methods set one thing each, and return the settings. Not for several threads. */
public final class Settings {
    final String name;
    final Cookie cookie;

    String cluster = "magnetar";
    InetAddress address = InetAddress.getLoopbackAddress();
    int port;
    InetSocketAddress advertised;
    SSLContext tls;
    boolean insecure;
    List<InetSocketAddress> peers = List.of();
    InetSocketAddress group;
    String query;
    String nameServer;
    long detectMillis = 8_000;
    long heartbeatMillis = 2_000;
    long verifyMillis = 200;
    long mergeMillis = 2_000;
    long discoverMillis = 1_000;
    long leaveMillis = 2_000;
    long handshakeMillis = 5_000;
    int connectMillis = 1_000;

    /** Settings of a node with this name. It finds no others, until it is told how. */
    public Settings(String name, Cookie cookie) {
        this.name = name;
        this.cookie = cookie;
    }

    /** The name of the cluster. A node of another cluster is refused, also with the same cookie. */
    public Settings cluster(String value) {
        cluster = value;
        return this;
    }

    /** Where the node listens: the loopback address and a free port, if not set. */
    public Settings bind(InetAddress value, int atPort) {
        address = value;
        port = atPort;
        return this;
    }

    /** The address that others dial, if it is not the one that the node listens at. */
    public Settings advertise(InetSocketAddress value) {
        advertised = value;
        return this;
    }

    /** Connections use TLS 1.3, and each side needs a certificate that the other one's context trusts, for any host. */
    public Settings tls(SSLContext value) {
        tls = value;
        return this;
    }

    /** True allows a node to listen, and to dial others, outside of the loopback address without TLS. */
    public Settings insecure(boolean value) {
        insecure = value;
        return this;
    }

    /** Finds others at these addresses, and at the addresses that those nodes know. */
    public Settings peers(List<InetSocketAddress> value) {
        peers = List.copyOf(value);
        return this;
    }

    /**
     * Finds others by UDP to this multicast address and port. These messages are not authenticated. A forged one can
     * make a node dial a wrong address, and so keep members apart. It cannot let a program join without the cookie.
     */
    public Settings multicast(InetSocketAddress value) {
        group = value;
        return this;
    }

    /**
     * Finds others at all addresses that DNS has for this name, at the port that this node listens at. The server, as
     * host and port, may be null: then the one of this machine is asked.
     */
    public Settings dns(String value, String server) {
        query = value;
        nameServer = server;
        return this;
    }

    /**
     * A member is unreachable if it has been silent for {@code after} milliseconds. Each member sends something to all
     * others every {@code every} milliseconds.
     */
    public Settings detect(long after, long every) {
        detectMillis = after;
        heartbeatMillis = every;
        verifyMillis = Math.min(200, after / 4);
        return this;
    }

    /** Looks for members that were lost about every so many milliseconds. */
    public Settings merge(long value) {
        mergeMillis = value;
        return this;
    }

    /** Waits for so many milliseconds for the answer of another node before it is the first one. */
    public Settings discover(long value) {
        discoverMillis = value;
        return this;
    }

    /** The other side of a connection has so many milliseconds to prove itself. */
    public Settings handshake(long value) {
        handshakeMillis = value;
        return this;
    }

    /** Throws an error with a remedy if the settings do not fit together. */
    void check() {
        if (address.isAnyLocalAddress()) {
            throw new IllegalArgumentException("A node cannot listen at the wildcard address "
                    + address.getHostAddress() + ", since the others need to know where it is: name one address of this machine.");
        }
        if (heartbeatMillis <= 0 || detectMillis < 2 * heartbeatMillis) {
            throw new IllegalArgumentException("A member that is silent for " + detectMillis + " ms cannot be told from"
                    + " one that sends something every " + heartbeatMillis + " ms: let the first be twice the second or more.");
        }
        int ways = (peers.isEmpty() ? 0 : 1) + (group == null ? 0 : 1) + (query == null ? 0 : 1);
        if (ways > 1) {
            throw new IllegalArgumentException("A node finds the others by peers, by multicast or by DNS: choose one.");
        }
        for (InetSocketAddress peer : peers) {
            if (peer.isUnresolved()) {
                throw new IllegalArgumentException("The peer " + peer.getHostString() + " has no address: correct its name.");
            }
        }
        if (!mayLeaveMachine()) {
            checkThatAllIsLocal();
        }
        checkThatPeersCanDial();
    }

    /** True if connections with other machines are allowed. */
    boolean mayLeaveMachine() {
        return tls != null || insecure;
    }

    private void checkThatAllIsLocal() {
        if (!address.isLoopbackAddress()) {
            refusePlainText("listens at " + address.getHostAddress() + ",");
        }
        if (advertised != null && !advertised.getAddress().isLoopbackAddress()) {
            refusePlainText("others dial at " + shown(advertised) + ",");
        }
        for (InetSocketAddress peer : peers) {
            if (!peer.getAddress().isLoopbackAddress()) {
                refusePlainText("dials the peer " + shown(peer) + ",");
            }
        }
        if (group != null || query != null) {
            refusePlainText("finds the others by " + (group == null ? "DNS" : "multicast") + ", which may be");
        }
    }

    private static void refusePlainText(String how) {
        throw new IllegalArgumentException("A node that " + how + " outside of the loopback address, needs TLS."
                + " If the network is trusted, allow it with :insecure true.");
    }

    /** A peer on another machine that is told a loopback address would dial itself. */
    private void checkThatPeersCanDial() {
        for (InetSocketAddress peer : peers) {
            if (advertised == null && address.isLoopbackAddress() && !peer.getAddress().isLoopbackAddress()) {
                throw new IllegalArgumentException("The peer " + shown(peer) + " cannot dial a node that listens at "
                        + address.getHostAddress() + ": give :bind an address of this machine that the peer can dial, or give such"
                        + " an address to :advertise.");
            }
        }
    }

    private static String shown(InetSocketAddress place) {
        return place.getHostString() + ":" + place.getPort();
    }
}
