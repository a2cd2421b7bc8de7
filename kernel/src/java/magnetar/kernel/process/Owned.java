package magnetar.kernel.process;

/** What belongs to a process and does not outlive it, unless it finds another owner. */
public interface Owned {
    /**
     * The process has died. Called by whoever ended it, before anybody else learns of the death, once for each time that the process began to own
     * this: it may have been given away since. Must neither wait nor throw, nor call what a user wrote.
     */
    void ownerDied(Pid owner);
}
