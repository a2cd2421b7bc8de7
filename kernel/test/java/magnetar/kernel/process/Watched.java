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
}
