package magnetar.kernel.sched;

/**
 * How a fiber gets a carrier. The rule:
 * <ol>
 *   <li>The first fiber that a fiber wakes between two of its parks is handed over, to the end of the queue of
 *       the waker's carrier, without a signal to another carrier. Each further one follows it there, with a
 *       signal only if the place before it is empty. So if the waker computes on, an idle carrier comes for
 *       them at the monitor's next tick.
 *   <li>Queues are first in, first out, so that a chain of hand-overs delays no fiber that waits already.
 *   <li>At each 64th resumption, and when the {@link SchedulerMonitor} asks, a carrier moves up to 256 external
 *       submissions to the end of its queue.
 *   <li>At each millisecond at which the queues do not run empty, the monitor submits an empty thread, which
 *       wakes a carrier if one is idle.
 *   <li>When a fiber has waited for 10 ms and no carrier is idle, the monitor {@link Carriers adds} a carrier
 *       for each one that computes, 8 at most. It also adds one for each 100 ms in which no carrier answers its
 *       request to move submissions (rule 3). It takes one back for each second in which fewer compute. While
 *       some are added, a carrier that answers also takes up to 64 fibers from the queues of others.
 * </ol>
 * External submissions are fibers that a timer or a platform thread has started or woken. A hand-over gives no
 * signal, because most wakers are about to park: then the woken fiber runs on their core, after those that were
 * queued there already.
 *
 * <p>{@link HandOff} does this, where it may use private parts of the JDK. Elsewhere {@link JdkScheduler} submits
 * each woken fiber with a signal, and no carrier moves external submissions. So there, as an exception, fibers make
 * room for them: each checks after every 64 of its own resumptions, and steps aside if a probe has waited for
 * 10 ms. {@link Schedulers} chooses.
 *
 * <p>A scheduler may assume only that a thread is parked by {@code LockSupport.park}. It decides alone which of
 * its fibers runs next. Another one has to {@link SchedulerMonitor#remind remind} the monitor when a fiber may
 * wait although a carrier is idle. Several threads may call {@code wake} for one target at the same time.
 */
public interface Scheduler {
    /** The newest JDK that the checks ran on. On a newer one the same names may mean something else. */
    int KNOWN = 25;

    /** The property that turns the hand-off on or off. */
    String HAND_OFF = "magnetar.hand-off";

    /**
     * True if a scheduler may use private parts of virtual threads: by the property
     * {@link #HAND_OFF}, else on JDKs up to {@link #KNOWN}.
     */
    static boolean mayLookInside() {
        return Settings.flag(HAND_OFF, Runtime.version().feature() <= KNOWN);
    }

    /**
     * Makes a parked thread runnable, or lets its next park return at once. If there is no memory for that, waits for some.
     *
     * @param waker what runs on the current thread, or null if that is a platform thread
     */
    void wake(Thread thread, Schedulable waker);

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
     * {@link SchedulerMonitor} asks.
     */
    boolean mayBeStranded();

    /** How many external submissions wait, as far as this scheduler sees them. */
    int submissions();

    /**
     * How many carriers compute: how many have run the same body for {@link SchedulerMonitor#PATIENCE_NANOS} ns. The
     * monitor asks at each tick while a fiber may be stranded, or carriers are added.
     *
     * @param waits true if a fiber may be stranded
     * @param elapsed the nanoseconds since the last call; 0 after a gap, so that what earlier calls saw does not count
     */
    int computing(boolean waits, long elapsed);

    /** Called when a fiber has started, or was resumed after a park. Only a scheduler that cannot see its carriers records it. */
    void resumed();
}
