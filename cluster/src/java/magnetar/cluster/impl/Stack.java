package magnetar.cluster.impl;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.jgroups.JChannel;
import org.jgroups.logging.LogFactory;
import org.jgroups.protocols.Discovery;
import org.jgroups.protocols.FD_ALL3;
import org.jgroups.protocols.MERGE3;
import org.jgroups.protocols.TCPPING;
import org.jgroups.protocols.TransferQueueBundler;
import org.jgroups.protocols.UNICAST3;
import org.jgroups.protocols.VERIFY_SUSPECT2;
import org.jgroups.protocols.dns.DNS_PING;
import org.jgroups.protocols.pbcast.GMS;
import org.jgroups.protocols.pbcast.NAKACK2;
import org.jgroups.protocols.pbcast.STABLE;
import org.jgroups.stack.Protocol;

/**
 * The protocols of JGroups that a network uses, and a channel over them.
 *
 * <p>Left out: UFC and MFC, see {@link Window}; FRAG4, since no message is longer than the transport carries, and since
 * it makes a message of any type from its parts; FD_SOCK2, which listens at all addresses; STATE_TRANSFER and BARRIER.
 */
final class Stack {
    private static final List<Logger> loggers = List.of(Logger.getLogger("org.jgroups"), Logger.getLogger("magnetar.cluster.impl"));

    private static final int MAX_BUNDLE = 128 << 10;
    private static final int MAX_LENGTH = 1 << 20;

    final Cuts cuts = new Cuts();
    final RestrictedTcp transport;
    final JChannel channel;

    static {
        if (LogFactory.getCustomLogFactory() == null) {
            LogFactory.useJdkLogger(true);
        }
        for (Logger logger : loggers) { // JGroups names a logger after the class of the protocol, which may be ours
            if (logger.getLevel() == null) {
                logger.setLevel(Level.OFF); // much that it logs is normal; a logging.properties can ask for it
            }
        }
        FrameHeader.register();
    }

    Stack(Settings settings, ProvenSockets sockets) throws Exception {
        transport = new RestrictedTcp(cuts, sockets.refusals);
        channel = new JChannel(protocols(settings, sockets));
        channel.setName(settings.name);
    }

    private List<Protocol> protocols(Settings settings, ProvenSockets sockets) {
        configureTransport(settings, sockets);
        List<Protocol> protocols = new ArrayList<>();
        protocols.add(transport);
        protocols.add(cuts);
        protocols.add(discovery(settings, sockets));
        protocols.add(new MERGE3().setMinInterval(settings.mergeMillis).setMaxInterval(2 * settings.mergeMillis));
        protocols.add(new FD_ALL3().setTimeout(settings.detectMillis).setInterval(settings.heartbeatMillis));
        protocols.add(new VERIFY_SUSPECT2().setTimeout(settings.verifyMillis));
        protocols.add(new NAKACK2().useMcastXmit(false));
        protocols.add(new UNICAST3());
        protocols.add(new STABLE());
        protocols.add(new GMS().setJoinTimeout(settings.discoverMillis).setLeaveTimeout(settings.leaveMillis)
                .printLocalAddress(false).setViewAckCollectionTimeout(settings.discoverMillis));
        return protocols;
    }

    private void configureTransport(Settings settings, ProvenSockets sockets) {
        transport.setBufferedOutputStreamSize(2 * MAX_BUNDLE).tcpNodelay(true)
                .setSockConnTimeout(settings.connectMillis).setMaxLength(MAX_LENGTH).enableSuspectEvents(true);
        transport.logAcceptError(false);
        transport.setBindAddress(settings.address).setBindPort(sockets.server.getLocalPort()).setPortRange(0);
        transport.useVirtualThreads(true);
        if (settings.advertised != null) {
            transport.setExternalAddr(settings.advertised.getAddress()).setExternalPort(settings.advertised.getPort());
        }
        TransferQueueBundler bundler = new TransferQueueBundler();
        bundler.setCapacity(64 << 10);
        bundler.setMaxSize(MAX_BUNDLE);
        transport.setBundler(bundler);
        transport.setSocketFactory(sockets);
    }

    private static Discovery discovery(Settings settings, ProvenSockets sockets) {
        if (settings.group != null) {
            Multicast multicast = new Multicast();
            multicast.setMcastAddr(settings.group.getAddress());
            multicast.setMcastPort(settings.group.getPort());
            return multicast;
        }
        if (settings.query != null) {
            DNS_PING dns = new DNS_PING();
            dns.setDNSQuery(settings.query);
            if (settings.nameServer != null) {
                dns.setDNSAddress(settings.nameServer);
            }
            return dns;
        }
        List<InetSocketAddress> hosts = new ArrayList<>(settings.peers);
        if (hosts.isEmpty()) {
            InetSocketAddress here = new InetSocketAddress(settings.address, sockets.server.getLocalPort());
            hosts.add(settings.advertised == null ? here : settings.advertised); // itself, as JGroups knows it: nothing else is there
        }
        TCPPING discovery = new TCPPING().<TCPPING>setInitialHosts(hosts).setPortRange(0);
        discovery.returnEntireCache(true); // peers need not know each other: one that both know tells them
        return discovery;
    }
}
