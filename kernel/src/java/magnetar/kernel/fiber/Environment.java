package magnetar.kernel.fiber;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import magnetar.kernel.sched.Scheduler;
import magnetar.kernel.sched.Schedulers;
import magnetar.kernel.sched.SchedulerMonitor;

/**
 * The runtime environment of a fiber: clock, random numbers, ids, park and unpark, and how threads are made.
 * Each fiber has an environment and passes it to the fibers that it starts, so that a simulated environment
 * can run beside the real one.
 *
 * <p>Invariant: a fiber uses clocks, random sources and {@link LockSupport} only through its environment.
 * Fibers of two environments share no channel.
 */
public class Environment {
    /** The environment of the operating system's clock and the JVM's scheduler. */
    public static final Environment REAL = new Environment();

    /** The creation of simulated runs, which tells their ids from the ids of real runs. */
    protected static final int SIMULATED_CREATION = 1;

    /** The nodes of simulated runs have larger creations than this one. No real run has one of them. */
    protected static final long NODES_CREATION = Integer.MAX_VALUE;

    private static final long CREATION = ThreadLocalRandom.current().nextInt(SIMULATED_CREATION + 1, Integer.MAX_VALUE);

    private static final Scheduler SCHEDULER = Schedulers.chosen();

    private static final ThreadFactory VIRTUAL = Thread.ofVirtual().factory();

    private static final VarHandle TIMERS;

    static {
        try {
            TIMERS = MethodHandles.lookup().findVarHandle(Environment.class, "timers", Object.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    // Negative, so that they never equal an id of core.async, which counts up from zero.
    private final AtomicLong ids = new AtomicLong(Long.MIN_VALUE);

    private final AtomicLong serials = new AtomicLong();

    // Set once, read by any thread: the timers of this environment, which the package time makes.
    private volatile Object timers;

    // One value per key, see local.
    private final Map<Object, Object> locals = new ConcurrentHashMap<>();

    /** For simulated environments. */
    protected Environment() {}

    /** The simulated environment that the current thread is in, else {@link #REAL}. */
    public static Environment current() {
        Environment simulated = Simulated.environment();
        return simulated == null ? REAL : simulated;
    }

    /** The monotonic clock, in nanoseconds. */
    public long nanoTime() {
        return System.nanoTime();
    }

    /** A cheap clock for the start of a wait, exact enough for a human reader. */
    public long coarseNanos() {
        long tick = SchedulerMonitor.lastTick();
        return tick != 0 && this == REAL && SCHEDULER.handsOver() ? tick : nanoTime();
    }

    /** A seed for the random numbers of a new fiber. */
    public long seed() {
        return ThreadLocalRandom.current().nextLong();
    }

    /**
     * Reserves {@code n} ids, the same number in each call, and returns the first, which is a multiple of
     * {@code n}.
     */
    long reserveIds(int n) {
        return ids.getAndAdd(n);
    }

    /** The next number of a series that starts at 1 in this environment. */
    public final long nextSerial() {
        return serials.incrementAndGet();
    }

    /** A number that tells this run from other runs. */
    public long creation() {
        return CREATION;
    }

    /** Parks the current thread, which waits with this waiter. May return early. */
    public void park(Object waiter) {
        LockSupport.park();
    }

    /** Makes the thread of the fiber runnable. */
    public void unpark(Thread thread, Fiber fiber) {
        SCHEDULER.wake(thread, waker());
    }

    /**
     * The current fiber if it may hand over, else null. Also null if memory has run out and the fiber is not
     * known yet.
     */
    private static Fiber waker() {
        if (!SCHEDULER.handsOver() || !Thread.currentThread().isVirtual()) {
            return null;
        }
        try {
            return Fiber.current();
        } catch (OutOfMemoryError noRoom) {
            return null;
        }
    }

    /** Makes, but does not start, the thread of a fiber. */
    public Thread newThread(String name, Runnable task) {
        Thread made = VIRTUAL.newThread(task); // a builder for each thread would cost 32 bytes
        made.setName(name);
        return made;
    }

    /** Starts such a thread. */
    protected void start(Thread thread) {
        thread.start();
    }

    /**
     * Starts such a thread without a list of the JVM holding it. Returns false, and does nothing, if that is
     * not possible.
     */
    protected static boolean startUntracked(Thread thread) {
        return SCHEDULER.startUntracked(thread);
    }

    /**
     * Makes, but does not start, a platform thread; a simulated environment makes one of its own fibers
     * instead.
     */
    public Thread newPlatformThread(String name, Runnable task) {
        return Thread.ofPlatform().daemon().name(name).unstarted(task);
    }

    /** True if this environment moves its timers itself, without a thread of the wheel. */
    public boolean movesTimers() {
        return false;
    }

    /**
     * True on the fiber that expires the timers of an environment that {@link #movesTimers moves them
     * itself}.
     */
    protected boolean isExpiring() {
        return false;
    }

    /** Called at a switch point of a fiber of this environment while a simulation runs. */
    protected void reachSwitchPoint() {}

    /**
     * Lets others run, if this environment schedules its fibers itself. Else returns false and does nothing.
     */
    protected boolean letOthersRun() {
        return false;
    }

    /** Records an event of the object in the log of a simulation. */
    protected void write(String what, Object on, Object value) {}

    /** Records that a fiber of this environment has woken a thread of another one. */
    protected void recordForeignWake(Thread woken) {}

    /** True if the message is to be dropped. */
    protected boolean isLost(Object to, Object message) {
        return false;
    }

    /** True if signals of this environment may be delayed. */
    protected boolean delaysSignals() {
        return false;
    }

    /** True if the signal was taken and arrives later. */
    protected boolean isDelayed(Object from, Object to, Object what, Runnable arrival) {
        return false;
    }

    /** Delivers the delayed signals from one to the other. */
    protected void deliverDelayed(Object from, Object to) {}

    /** True if this environment records the failure, so that it is not reported elsewhere. */
    protected boolean keepsFailure(String site, Throwable error) {
        return false;
    }

    /** The timers of this environment, made on first use. */
    @SuppressWarnings("unchecked")
    public final <T> T timers(Supplier<T> make) {
        Object t = timers;
        if (t == null) {
            T made = make.get();
            t = TIMERS.compareAndSet(this, (Object) null, (Object) made) ? made : timers;
        }
        return (T) t;
    }

    /** The value of this key in this simulated environment, made on first use. */
    @SuppressWarnings("unchecked")
    public final <T> T local(Object key, Supplier<T> make) {
        return (T) locals.computeIfAbsent(key, k -> make.get());
    }
}
