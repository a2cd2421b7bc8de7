package magnetar.kernel.process;

/** What happens to an ordinary message that finds no room in a bounded mailbox. */
public enum WhenFull {
    /** Its sender waits for room. */
    BLOCK,
    /** It is dropped. */
    DROP_NEW,
    /** The oldest ordinary message is dropped. */
    DROP_OLD,
    /** Its sender gets an error. */
    FAIL
}
