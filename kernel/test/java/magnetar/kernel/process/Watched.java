package magnetar.kernel.process;

/** Gives the checks access to members of this package. */
public final class Watched {
    private Watched() {}

    /** The number of monitors of other processes on this one, including monitors of calls that are over. */
    public static int watchers(Pid pid) {
        LocalProcess p = ProcessTable.live(pid);
        synchronized (p) {
            return Monitors.watchers(p).size();
        }
    }

    /** Records that memory has ended in the process while its mailbox held so many messages. */
    public static void memoryEnded(Pid pid, int messages) {
        FullMemory.ended(pid, messages);
    }

    /** Prints what fills the memory, as a report at the time {@code now} does. */
    public static void reportMemory(long now) {
        FullMemory.print(now);
    }
}
