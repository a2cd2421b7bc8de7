package magnetar.kernel.process;

/** A thing that belongs to a process and does not outlive it, unless it gets another owner. */
public interface Owned {
    /**
     * Called when the owner has died, on the thread that ended it, before any other process learns of the
     * death. It is called once for each time that the process began to own this, which may have another owner
     * by now. It must not wait, throw, or call user code.
     */
    void ownerDied(Pid owner);
}
