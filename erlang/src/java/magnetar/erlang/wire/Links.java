package magnetar.erlang.wire;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import magnetar.etf.Identities;
import magnetar.kernel.process.Connection;
import magnetar.kernel.process.Signal;
import magnetar.kernel.process.Transport;

/** The connections of this node with nodes of Erlang, as the transport of the kernel. It starts no processes for others. */
public final class Links implements Transport {
    private final Map<Connection, Link> links = new ConcurrentHashMap<>();
    private final Ids ids = new Ids(this);

    /** No connections yet. */
    public Links() {}

    /** How the codec of the connections writes pids and references. */
    public Identities identities() {
        return ids;
    }

    void put(Connection c, Link link) {
        links.put(c, link);
    }

    void remove(Connection c) {
        links.remove(c);
    }

    @Override
    public void connect(String node) throws InterruptedException {
        Node.reach(node);
    }

    @Override
    public void send(Connection to, Signal signal) {
        Link link = links.get(to);
        if (link != null) {
            link.send(signal);
        }
    }

    @Override
    public boolean isErlang() {
        return true;
    }

    @Override
    public void awaitRoom(Connection to) throws InterruptedException {
        Link link = links.get(to);
        if (link != null) {
            link.awaitRoom();
        }
    }
}
