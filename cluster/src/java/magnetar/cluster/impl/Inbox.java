package magnetar.cluster.impl;

import java.util.ArrayDeque;

/** What has come from one member. Guarded by the lock of {@link JGroupsNetwork} under which events are told. */
final class Inbox {
    /** A frame that waits for the name of its sender. */
    record Held(long position, byte[] frame) {}

    /**
     * The position of the last frame. A frame at this or a lower position is a copy: JGroups may deliver one again after
     * a merge.
     */
    long last;

    /** The position that was acknowledged last. */
    long acknowledged;

    /** Frames that came before the name of the sender. The window of the sender bounds them. */
    final ArrayDeque<Held> held = new ArrayDeque<>();
}
