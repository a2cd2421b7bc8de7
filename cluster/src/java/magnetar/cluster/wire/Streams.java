package magnetar.cluster.wire;

import clojure.lang.IFn;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import magnetar.etf.Identities;
import magnetar.kernel.process.Connection;
import magnetar.kernel.process.Peer;
import magnetar.kernel.process.Signal;
import magnetar.kernel.process.Transport;

/** The streams of a node to others, as the transport of the kernel. */
public final class Streams implements Transport {
    private final Map<Connection, Stream> streams = new ConcurrentHashMap<>();
    private final IFn work;

    /**
     * The streams of the current node, none yet.
     *
     * @param work a function of what another node wants a process to do, that returns a function without arguments, or
     *     throws why not
     */
    public Streams(IFn work) {
        this.work = work;
    }

    /** How the codec of the streams writes pids and references of the node, which others know by this incarnation. */
    public Identities identities(long incarnation) {
        return new ProcessIds(this, incarnation);
    }

    /** Begins a connection to the node over the stream. */
    public Connection open(Peer peer, Stream stream) {
        Connection next = new Connection(peer);
        streams.put(next, stream);
        peer.connect(this, next);
        return next;
    }

    /** Ends the connection and its stream. */
    public void close(Connection c) {
        Stream stream = streams.remove(c);
        if (stream != null) {
            stream.close();
        }
        c.down();
    }

    /** How many bytes wait for the other node; -1 if the connection has ended. */
    public int queued(Connection c) {
        Stream stream = streams.get(c);
        return stream == null ? -1 : stream.size();
    }

    @Override
    public void send(Connection to, Signal signal) {
        Stream stream = streams.get(to);
        if (stream != null) {
            stream.send(signal);
        }
    }

    @Override
    public Callable<?> work(Connection from, Object what) {
        return (Callable<?>) work.invoke(what);
    }

    @Override
    public void awaitRoom(Connection to) throws InterruptedException {
        Stream stream = streams.get(to);
        if (stream != null) {
            stream.awaitRoom();
        }
    }
}
