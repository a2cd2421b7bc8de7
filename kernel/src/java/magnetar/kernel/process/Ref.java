package magnetar.kernel.process;

import java.util.Arrays;

/**
 * A reference: a unique value.
 *
 * <p>It records the youngest message in the mailbox of its maker at that time. No older message can contain
 * the reference, so a receive that matches on it skips them.
 */
public class Ref implements Comparable<Ref> {
    /** What a message sent to a reference does. */
    public enum Alias {
        /** It is dropped: the reference never was an address. */
        NONE,
        /** It is dropped: the reference was an address, and is one no longer. */
        CLOSED,
        /** It is delivered. */
        OPEN,
        /** It is delivered, and the alias is closed. */
        REPLY,
        /**
         * It is delivered, and closes both the alias and the monitor. The end of the monitor also closes the
         * alias.
         */
        REPLY_DEMONITOR,
        /** It is delivered. The end of the monitor closes the alias. */
        DEMONITOR
    }

    private final long id;
    private final long creation;
    private final Pid maker;
    private final long mark;

    // Guarded by the lock of the process that made it.
    Alias alias = Alias.NONE;

    Ref(long id, long creation, Pid maker, long mark) {
        this.id = id;
        this.creation = creation;
        this.maker = maker;
        this.mark = mark;
    }

    /** A reference read from text. */
    public static Ref read(long id, long creation) {
        return new Ref(id, creation, null, 0);
    }

    /** A reference that another node has written. */
    static Ref read(long id, long creation, Pid maker, Alias alias) {
        Ref ref = new Ref(id, creation, maker, 0);
        ref.alias = alias;
        return ref;
    }

    /** Its number on its node. */
    public long id() {
        return id;
    }

    /** The incarnation of its node. */
    public long creation() {
        return creation;
    }

    /** The process that made it; null if it was read from text or made outside of a process. */
    public Pid maker() {
        return maker;
    }

    /** The process that it is a monitor of; null if it is no monitor. */
    public Pid watched() {
        return null;
    }

    /** True if a message sent to it is delivered. Under the lock of the process that made it. */
    boolean isAddress() {
        return alias != Alias.NONE && alias != Alias.CLOSED;
    }

    /**
     * True if it never was an address. That is fixed before other threads have the reference, so any thread
     * may ask.
     */
    public boolean isPlain() {
        return alias == Alias.NONE;
    }

    /** The number of the youngest message that its maker had when it made the reference. */
    long mark() {
        return mark;
    }

    /** What tells it from another reference with the same id and creation; null if there can be none. */
    int[] more() {
        return null;
    }

    /** The reference as text. */
    public String text() {
        return id + "." + creation;
    }

    @Override
    public int compareTo(Ref other) {
        int byId = Long.compare(id, other.id);
        int byCreation = byId != 0 ? byId : Long.compare(creation, other.creation);
        return byCreation != 0 ? byCreation : Arrays.compare(more(), other.more());
    }

    @Override
    public boolean equals(Object other) {
        return this == other || other instanceof Ref r && compareTo(r) == 0;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(id * 0x9E3779B97F4A7C15L ^ creation);
    }

    @Override
    public String toString() {
        return "#magnetar/ref \"" + text() + "\"";
    }
}
