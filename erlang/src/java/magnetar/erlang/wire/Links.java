package magnetar.erlang.wire;

import clojure.lang.ExceptionInfo;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Function;
import magnetar.etf.Identities;
import magnetar.kernel.process.Connection;
import magnetar.kernel.process.Signal;
import magnetar.kernel.process.Transport;

/** The connections of this node with nodes of Erlang, as the transport of the kernel. */
public final class Links implements Transport {
    private final Map<Connection, Link> links = new ConcurrentHashMap<>();
    private final List<Watcher> watchers = new CopyOnWriteArrayList<>();
    private final Ids ids = new Ids(this);
    private final Object undefined;
    private final Function<Object, Callable<?>> works;

    /**
     * Is told of connections, by the thread that begins and ends them: that a node is up before its first signal, and that it
     * is down when links and monitors have fired. A node is visible if it said so, as {@code nodes()} of Erlang lists it.
     */
    public interface Watcher {
        /** A connection has begun. */
        void up(String node, boolean visible);

        /** A connection has ended. */
        void down(String node);
    }

    /**
     * No connections yet.
     *
     * @param undefined what the codec of the connections writes as the atom {@code undefined}
     * @param works what a process does that a node asks for, of {@code [module function arguments]}; throws if there is to
     *     be no process
     */
    public Links(Object undefined, Function<Object, Callable<?>> works) {
        this.undefined = undefined;
        this.works = works;
    }

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

    /** Tells the watcher of the nodes that are connected, and of all connections from now on. It may be told twice that one is up. */
    public void watch(Watcher watcher) {
        watchers.add(watcher); // T1 adds, then looks; T2 marks its link as up, then tells: at least one tells the watcher
        for (Link link : links.values()) {
            if (link.isUp()) {
                watcher.up(link.name(), link.isVisible());
            }
        }
    }

    void tellUp(Link link) {
        watchers.forEach(w -> w.up(link.name(), link.isVisible()));
    }

    void tellDown(Link link) {
        watchers.forEach(w -> w.down(link.name()));
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
    public Object undefined() {
        return undefined;
    }

    @Override
    public Callable<?> work(Connection from, Object what) {
        if (what instanceof ExceptionInfo unreadable) {
            throw unreadable;
        }
        return works.apply(what);
    }

    @Override
    public void awaitRoom(Connection to) throws InterruptedException {
        Link link = links.get(to);
        if (link != null) {
            link.awaitRoom();
        }
    }
}
