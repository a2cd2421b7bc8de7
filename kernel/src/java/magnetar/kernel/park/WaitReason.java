package magnetar.kernel.park;

/**
 * Why a fiber is parked. The list is closed: do not re-use a reason for another wait, add a new one.
 */
public enum WaitReason {
    /** Waits for a value from one channel. */
    CHANNEL_TAKE("take from a channel"),
    /** Waits until one channel accepts its value. */
    CHANNEL_PUT("put on a channel"),
    /** Waits for the first of several channel operations. */
    SELECT("select over channels"),
    /** Waits for a port of another library, through a handler. */
    FOREIGN_PORT("operation on a port of another library");

    private final String words;

    WaitReason(String words) {
        this.words = words;
    }

    /** The reason in words, as a dump prints it. */
    public String words() {
        return words;
    }
}
