package magnetar.kernel.process;

import magnetar.kernel.fiber.Fiber;

/**
 * What the processes of this node do to the processes of others.
 *
 * <p>An operation of a process first waits for a connection, and until there is room in its stream. A wait that is
 * interrupted without a cause ends, and the operation is done nonetheless; only a message is not sent then. What the
 * kernel tells by itself, such as a death, never waits.
 */
final class Remote {
    private Remote() {}

    /** The connection; null if the node cannot be reached, or for null, if it is not known. */
    private static Connection awaitRoom(Peer peer) {
        Connection c = null;
        try {
            c = peer == null ? null : peer.reach();
            if (c != null) {
                c.awaitRoom();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        Fiber.current().check();
        return c == null && peer != null ? peer.connection() : c;
    }

    /** Sends a message of the current fiber to a pid, an alias or a name of the node. */
    static void message(Fiber sender, Peer peer, Object to, Object message) throws InterruptedException {
        Connection c = peer.reach();
        if (c != null) {
            c.awaitRoom();
        }
        Object context = Traffic.sends(sender, to, message, sender.outgoing());
        if (c == null || c.isDown()) {
            DeadLetters.add(to, message, context);
            return;
        }
        LocalProcess from = LocalProcess.of(sender);
        try {
            c.tell(new Signal.Message(from == null ? null : from.pid(), inside(to), message, context));
        } catch (RuntimeException cannotBeWritten) {
            if (!(to instanceof Ref alias && c.failAnswer(alias, cannotBeWritten))) {
                throw cannotBeWritten;
            }
        }
    }

    /** Sends a message without waiting. False if the node is not connected. */
    static boolean tell(Peer peer, Object to, Object message, Object context) {
        Connection c = peer.connection();
        if (c == null) {
            return false;
        }
        c.tell(new Signal.Message(null, inside(to), message, context));
        return true;
    }

    /** The address as the other node knows it. */
    private static Object inside(Object to) {
        return to instanceof RemoteName there ? there.name() : to;
    }

    /** Sends an exit signal of the current fiber. */
    static void exit(Fiber sender, LocalProcess from, Peer peer, Pid to, Object reason) {
        Connection c = awaitRoom(peer);
        if (c != null) {
            c.tell(new Signal.Exit(from == null ? null : from.pid(), to, reason, sender.outgoing()));
        }
    }

    // --- links and monitors ------------------------------------------------------------------------------------------

    static void link(LocalProcess me, Pid other, Peer peer) {
        Connection c = awaitRoom(peer);
        if (c == null) {
            me.exit(other, Dialect.get().noconnection, false, null);
        } else {
            c.link(me, other);
        }
        me.fiber().check(); // the node may be out of reach
    }

    /** Ends a link; false if the node is not connected. */
    static boolean unlink(LocalProcess me, Pid other) {
        Connection c = connection(other);
        if (c != null) {
            c.unlink(me, other);
        }
        return c != null;
    }

    static void monitor(LocalProcess me, Monitor m, Peer peer, boolean waits) {
        Connection c = waits ? awaitRoom(peer) : peer == null ? null : peer.connection();
        if (Monitors.keep(me, m) && (c == null || !c.watch(me, m))) {
            Monitors.fire(me, m, Dialect.get().noconnection);
        }
    }

    /** Ends a monitor on a process of another node. */
    static void forget(Monitor m) {
        Connection c = connection(m.watched);
        if (c != null) {
            c.forget(m);
        }
    }

    private static Connection connection(Pid other) {
        Peer peer = Peers.of(other);
        return peer == null ? null : peer.connection();
    }

    // --- processes of other nodes ------------------------------------------------------------------------------------

    static void spawn(Peer peer, Signal.Spawn request) {
        Connection c = awaitRoom(peer);
        if (c == null) {
            Delivery.deliverSignal(request.from().process(), Dialect.codec().spawned(request.ref(), Dialect.get().noconnection), null);
        } else {
            c.spawn(request);
        }
    }

    /** Gives up a request; false if its answer has come. */
    static boolean abandon(LocalProcess me, Peer peer, Ref ref) {
        Connection c = peer.connection();
        return c != null && c.abandon(me, ref);
    }

    // --- deaths ------------------------------------------------------------------------------------------------------

    /** Tells a linked process of another node. */
    static void died(Pid dead, Pid linked, Object why) {
        Connection c = connection(linked);
        if (c != null) {
            c.died(dead, linked, why);
        }
    }

    /** Tells a watcher of another node. */
    static void watchedDied(Monitor m, Object why) {
        Connection c = connection(m.maker());
        if (c != null) {
            c.watchedDied(m, why);
        }
    }
}
