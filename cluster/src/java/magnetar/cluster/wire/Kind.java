package magnetar.cluster.wire;

/** The kinds of signals, in the order of their numbers on the wire, which must not change. */
enum Kind {
    MESSAGE,
    EXIT,
    EXIT_LINK,
    LINK,
    UNLINK,
    UNLINK_ACK,
    MONITOR,
    DEMONITOR,
    DOWN,
    SPAWN,
    SPAWN_REPLY;

    private static final Kind[] ALL = values();

    /** The kind with the number, or null. */
    static Kind of(int number) {
        return number >= 0 && number < ALL.length ? ALL[number] : null;
    }
}
