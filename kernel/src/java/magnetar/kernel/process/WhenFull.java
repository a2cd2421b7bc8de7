package magnetar.kernel.process;

/** What happens to an ordinary message that finds no room in a mailbox with a bound. */
public enum WhenFull {
    /** Its sender waits for room. */
    BLOCK,
    /** It is dropped. */
    DROP_NEW,
    /** The oldest ordinary message is dropped. */
    DROP_OLD,
    /** Its sender is told by an error. */
    FAIL
}
