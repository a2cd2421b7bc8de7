package magnetar.kernel.sched;

/**
 * How a fiber gets a carrier. All a scheduler may assume is that a thread is parked by {@code LockSupport.park}; which of its fibers runs next is its own affair.
 *
 * <p>The two are {@link JdkScheduler}, which serves everywhere, and {@link HandOff}, with which a wake-up takes a third of the time. {@link Schedulers} chooses.
 * Another one has to {@link Ticker#remind remind} the ticker when a fiber may wait although a carrier is idle. {@code wake} may be called by several threads at a
 * time for one target.
 */
public interface Scheduler {
    /** The newest JDK that the checks were run on: on a newer one the same names may mean something else. */
    int KNOWN = 25;

    /** True if a scheduler may use the inside of the JDK's virtual threads: as the property {@code magnetar.hand-off} says, else on JDKs up to {@link #KNOWN}. */
    static boolean mayLookInside() {
        return Boolean.parseBoolean(System.getProperty("magnetar.hand-off", String.valueOf(Runtime.version().feature() <= KNOWN)));
    }

    /**
     * Makes a parked thread runnable, or lets its next park return at once. Never fails, memory or not.
     *
     * @param target what runs on the thread
     * @param waker what runs on the current thread, or null if that is a platform thread
     */
    void wake(Thread thread, Schedulable target, Schedulable waker);

    /** True if this scheduler can start threads that the JVM does not list. The first call may start a thread to find that out. */
    boolean startsUntracked();

    /**
     * Starts a virtual thread that the JVM does not list, so that it is collected when nobody can wake it any more; false if this scheduler cannot, and nothing was
     * done.
     */
    boolean startUntracked(Thread thread);

    /** True if a woken fiber may be handed to the carrier of its waker. */
    boolean handsOver();

    /** Asked by the {@link Ticker}: true if a fiber may wait for a carrier that does not come, or if this scheduler cannot tell. */
    boolean mayBeStranded();
}
