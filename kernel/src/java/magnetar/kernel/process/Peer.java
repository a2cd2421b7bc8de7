package magnetar.kernel.process;

import magnetar.kernel.fiber.Simulated;

/**
 * Another node, from its start to its end: a node that was started again is another peer. The pids of its processes
 * lead to it.
 *
 * <p>Invariant: it has at most one connection at a time. A new one is in use only after the old one is down, so no signal of
 * a stream acts before the links and monitors of the stream before it have fired.
 */
public final class Peer {
    private final int number;
    private final String name;
    private final long creation;

    // Written under its lock, read by any thread.
    private volatile Transport transport; // the one that leads to it, or led to it last
    private volatile Connection connection;

    Peer(int number, String name, long creation, Transport transport) {
        this.number = number;
        this.name = name;
        this.creation = creation;
        this.transport = transport;
    }

    /** The pid of its process with this number. */
    public Pid pid(long serial) {
        return Pid.of(this, number, serial, creation);
    }

    /** A reference of it. The maker is the pid of the process that made it, or null. */
    public Ref ref(long id, Pid maker, boolean address) {
        return Ref.read(id, creation, maker, address ? Ref.Alias.OPEN : Ref.Alias.NONE);
    }

    /** A pid that stands for a process which is only known by its name. */
    Pid stand() {
        return pid(0);
    }

    /** Its name. */
    public String name() {
        return name;
    }

    /** The number that tells this node from earlier and later ones with the same name. */
    public long creation() {
        return creation;
    }

    /** True if it is a node of Erlang. */
    public boolean isErlang() {
        return transport.isErlang();
    }

    Object undefined() {
        return transport.undefined();
    }

    /** The connection, or null. */
    public Connection connection() {
        return connection;
    }

    /** The connection, which is made if need be and possible; or null. */
    Connection reach() throws InterruptedException {
        if (connection == null && Peers.connected(name) == null) { // else a later node has the name
            transport.connect(name);
        }
        return connection;
    }

    /**
     * Begins a connection, which was made for this peer. Ends the last one first. Called by its transport when signals
     * can be sent, because {@link Transport#send} may be called before this has returned.
     */
    public void connect(Transport by, Connection next) {
        Connection last = connection;
        if (last != null) {
            last.down();
        }
        next.begin(by);
        Simulated.switchPoint();
        synchronized (this) {
            if (connection != null) {
                throw new IllegalStateException("The node " + name + " is connected twice at once.");
            }
            transport = by;
            connection = next;
            Peers.current().keep(this);
        }
    }

    /** Called by a connection that is down. */
    void disconnected(Connection c) {
        synchronized (this) {
            if (connection == c) {
                connection = null;
                Peers.current().release(this);
            }
        }
    }

    @Override
    public String toString() {
        return "node " + name;
    }
}
