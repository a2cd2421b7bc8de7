package magnetar.kernel.process;

/**
 * The identity of one process. It is never reused. Equal pids identify the same process, even if one of them
 * was read from text.
 *
 * <p>Invariant: {@code known} is the live process until that has ended, then how it ended. It changes once,
 * before another process learns of the death. So a pid keeps nothing of a dead process alive except its exit
 * reason and the value that it ended with. In a pid of another node it is that node. In a pid that was read
 * from text it is null at first, and is set once: to the process's own pid, to how the process ended, or to the
 * other node.
 */
public final class Pid implements Comparable<Pid> {
    private final int node;
    private final long serial;
    private final long creation;
    private final String label;

    // Set or read by any thread.
    private volatile Object known;

    /**
     * How a process ended.
     *
     * @param reason the exit reason
     * @param value its result, if the reason is normal
     */
    public record Ended(Object reason, Object value) {}

    /** A pid read from text. If a live process has this identity, its own pid is equal to this one. */
    public Pid(int node, long serial, long creation, String label) {
        this.node = node;
        this.serial = serial;
        this.creation = creation;
        this.label = label;
    }

    Pid(long serial, long creation, String label) {
        this(0, serial, creation, label);
    }

    /** A pid of this node whose process is dead, or was never there. */
    static Pid ofDead(long serial, long creation) {
        Pid pid = new Pid(serial, creation, null);
        pid.known = new Ended(Dialect.get().noproc, null);
        return pid;
    }

    /** A pid of another node. */
    static Pid of(Peer peer, int node, long serial, long creation) {
        Pid pid = new Pid(node, serial, creation, null);
        pid.known = peer;
        return pid;
    }

    void attach(LocalProcess live) {
        known = live;
    }

    void recordEnd(Ended how) {
        known = how;
    }

    /** The live or exiting process, or null. */
    LocalProcess process() {
        Object k = known;
        return k instanceof LocalProcess p ? p : k instanceof Pid own ? own.process() : null;
    }

    /** How it ended; null while it lives. */
    public Ended ended() {
        Object k = known;
        return k instanceof Ended e ? e : k instanceof Pid own ? own.ended() : null;
    }

    /** The other node that its process runs on; null if that is this one, or is not known yet. */
    Peer peer() {
        return known instanceof Peer p ? p : null;
    }

    /**
     * Records in a pid that was read from text the pid that the process itself has, how it ended, or its node. The
     * first call counts.
     */
    synchronized void recognize(Object found) {
        if (known == null) {
            known = found;
        }
    }

    /** True until it exits, or is told to exit. */
    public boolean isAlive() {
        LocalProcess p = process();
        return p != null && p.isAlive();
    }

    /** Its name, or the source line that started it. */
    public String label() {
        return label;
    }

    /** The number of the node it runs on; 0 is this one. */
    public int node() {
        return node;
    }

    /** The name of the node it runs on; null if that is not known. */
    public String nodeName() {
        Peer p = node == 0 ? null : Peers.of(this);
        return node == 0 ? Peers.name() : p == null ? null : p.name();
    }

    /** Its number on its node. */
    public long serial() {
        return serial;
    }

    /** The incarnation of its node. */
    public long creation() {
        return creation;
    }

    /** The pid as text, without the label. */
    public String text() {
        return node + "." + serial + "." + creation;
    }

    @Override
    public int compareTo(Pid other) {
        int byNode = Integer.compare(node, other.node);
        int bySerial = byNode != 0 ? byNode : Long.compare(serial, other.serial);
        return bySerial != 0 ? bySerial : Long.compare(creation, other.creation);
    }

    @Override
    public boolean equals(Object other) {
        return this == other || other instanceof Pid p && compareTo(p) == 0;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(serial * 0x9E3779B97F4A7C15L ^ creation) + node;
    }

    /** Appends what {@link #toString} returns. */
    StringBuilder appendTo(StringBuilder text) {
        text.append("#magnetar/pid \"").append(node).append('.').append(serial).append('.').append(creation);
        if (label != null) {
            text.append(' ').append(label);
        }
        return text.append('"');
    }

    @Override
    public String toString() {
        return appendTo(new StringBuilder()).toString();
    }
}
