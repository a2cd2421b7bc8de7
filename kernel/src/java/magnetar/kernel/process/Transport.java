package magnetar.kernel.process;

import java.util.concurrent.Callable;

/**
 * A way to other nodes, such as a cluster or Erlang's distribution. Several may be in use, each with nodes of its
 * own. Signals are never forwarded from one transport to another.
 *
 * <p>A transport makes a {@link Peer} for each node that it meets, and a {@link Connection} each time when it has a
 * stream of signals to it. It gives the connection each signal that arrives, in order, and says when the stream has
 * ended. It writes pids and references with {@link Exports}, and reads them with that class and {@link Peer}.
 */
public interface Transport {
    /**
     * Adds a signal to the stream, behind all that were added before. Never waits. Drops it if the stream has ended.
     *
     * <p>If a part of a {@link Signal.Message}, {@link Signal.Exit} or {@link Signal.Spawn} cannot be written, throws
     * an error for its sender, and the stream goes on. In others the transport writes something in its place.
     */
    void send(Connection to, Signal signal);

    /** Waits while the stream is full. Returns at once if it has ended. */
    void awaitRoom(Connection to) throws InterruptedException;

    /**
     * Connects the node of this name, if it can, because an operation needs the node. Waits, as the current fiber, until
     * the node is connected or cannot be.
     */
    default void connect(String node) throws InterruptedException {}

    /** True if the nodes that it leads to speak as OTP does: then servers there are asked in OTP's words. */
    default boolean isErlang() {
        return false;
    }

    /** What a transport to nodes of Erlang writes as the atom {@code undefined}: a keyword, or null. */
    default Object undefined() {
        return null;
    }

    /**
     * Returns what a process does that another node asks for. If that is not allowed, throws an error, which is sent back
     * as the reason.
     */
    default Callable<?> work(Connection from, Object what) {
        throw new UnsupportedOperationException("This node starts no processes for others.");
    }
}
