package magnetar.kernel.sched;

/**
 * How a fiber gets a carrier. A scheduler may assume only that a thread is parked by
 * {@code LockSupport.park}. It decides alone which of its fibers runs next.
 *
 * <p>There are two: {@link JdkScheduler}, which works everywhere, and {@link HandOff}, with which a wake-up
 * takes a third of the time. {@link Schedulers} chooses. Another one has to {@link Ticker#remind remind} the
 * ticker when a fiber may wait although a carrier is idle. Several threads may call {@code wake} for one
 * target at the same time.
 */
public interface Scheduler {
    /** The newest JDK that the checks ran on. On a newer one the same names may mean something else. */
    int KNOWN = 25;

    /**
     * True if a scheduler may use private parts of virtual threads: by the property
     * {@code magnetar.hand-off}, else on JDKs up to {@link #KNOWN}.
     */
    static boolean mayLookInside() {
        return Boolean.parseBoolean(System.getProperty("magnetar.hand-off", String.valueOf(Runtime.version().feature() <= KNOWN)));
    }

    /**
     * Makes a parked thread runnable, or lets its next park return at once. Never fails, even without memory.
     *
     * @param target what runs on the thread
     * @param waker what runs on the current thread, or null if that is a platform thread
     */
    void wake(Thread thread, Schedulable target, Schedulable waker);

    /** True if this scheduler can start threads that the JVM does not list. The first call may start a thread to find that out. */
    boolean startsUntracked();

    /**
     * Starts a virtual thread that the JVM does not list, so that it can be collected once nothing can wake
     * it. Returns false, and does nothing, if this scheduler cannot.
     */
    boolean startUntracked(Thread thread);

    /** True if a woken fiber may be handed to the carrier of its waker. */
    boolean handsOver();

    /**
     * True if a fiber may wait for a carrier that does not come, or if this scheduler cannot tell. The
     * {@link Ticker} asks.
     */
    boolean mayBeStranded();
}
