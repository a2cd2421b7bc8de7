package magnetar.kernel.process;

/** Shows what only this package may see. */
public final class Watched {
    private Watched() {}

    /** How many monitors the process lists that others have on it, those of calls too that are over. */
    public static int watchers(Pid pid) {
        LocalProcess p = ProcessTable.live(pid);
        synchronized (p) {
            return Monitors.watchers(p).size();
        }
    }
}
