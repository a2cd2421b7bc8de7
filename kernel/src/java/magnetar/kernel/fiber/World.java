package magnetar.kernel.fiber;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import magnetar.kernel.sched.Scheduler;
import magnetar.kernel.sched.Schedulers;
import magnetar.kernel.sched.Ticker;

/**
 * Time and chance as a fiber sees them: the clock, random numbers, ids, park and unpark, and how threads are made. Each
 * fiber has a world and hands it to the fibers it starts, so that a simulated world can run beside the real one.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A fiber asks no clock, no random source and no {@link LockSupport} but through its world. Fibers of two worlds share
 *       no channel.
 * </ol>
 */
public class World {
    /** The world of the operating system's clock and the JVM's scheduler. */
    public static final World REAL = new World();

    /** What tells the ids of simulations from those of real runs. */
    protected static final int SIMULATED_CREATION = 1;

    private static final long CREATION = ThreadLocalRandom.current().nextInt(SIMULATED_CREATION + 1, Integer.MAX_VALUE);

    private static final Scheduler SCHEDULER = Schedulers.chosen();

    private static final VarHandle TIMERS;

    static {
        try {
            TIMERS = MethodHandles.lookup().findVarHandle(World.class, "timers", Object.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    // Below zero, so that they never equal an id of core.async, which counts up from zero.
    private final AtomicLong ids = new AtomicLong(Long.MIN_VALUE);

    private final AtomicLong serials = new AtomicLong();

    // Set once, read by any thread: the timers of this world, owned by the room above.
    private volatile Object timers;

    // What others keep for each simulated world.
    private final Map<Object, Object> rooms = new ConcurrentHashMap<>();

    /** For simulated worlds. */
    protected World() {}

    /** The simulated world that the current thread is in, else {@link #REAL}. */
    public static World current() {
        World simulated = Simulated.world();
        return simulated == null ? REAL : simulated;
    }

    /** The monotonic clock, in nanoseconds. */
    public long nanoTime() {
        return System.nanoTime();
    }

    /** The clock to mark the start of a wait with: exact enough for a human, and cheap. */
    public long coarseNanos() {
        long tick = Ticker.lastTick();
        return tick != 0 && this == REAL && SCHEDULER.handsOver() ? tick : nanoTime();
    }

    /** Seeds the random numbers of a new fiber. */
    public long seed() {
        return ThreadLocalRandom.current().nextLong();
    }

    /** Reserves {@code n} ids, the same number in each call, and returns the first, a multiple of it. */
    long reserveIds(int n) {
        return ids.getAndAdd(n);
    }

    /** The next number of something that is numbered from 1 in this world. */
    public final long nextSerial() {
        return serials.incrementAndGet();
    }

    /** Tells this run from others. */
    public long creation() {
        return CREATION;
    }

    /** Parks the current thread, which waits with this; it may return too early. */
    public void park(Object waiter) {
        LockSupport.park();
    }

    /** Makes the thread runnable, which is that of the fiber. */
    public void unpark(Thread thread, Fiber fiber) {
        SCHEDULER.wake(thread, fiber, waker());
    }

    /** The current fiber, if it is one that may hand over; null too if memory has ended and it is not known yet. */
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
        return Thread.ofVirtual().name(name).unstarted(task);
    }

    /** Starts such a thread so that no list of the JVM holds it; false if that is not possible, and nothing was done. */
    static boolean startUntracked(Thread thread) {
        return SCHEDULER.startUntracked(thread);
    }

    /** Makes, but does not start, a platform thread; a simulated world makes one of its own fibers instead. */
    public Thread newPlatformThread(String name, Runnable task) {
        return Thread.ofPlatform().daemon().name(name).unstarted(task);
    }

    /** True if this world moves its timers itself, without a thread of the wheel. */
    public boolean movesTimers() {
        return false;
    }

    /** True on the fiber that expires the timers of a world that {@link #movesTimers moves them itself}. */
    protected boolean isExpiring() {
        return false;
    }

    /** Called at a switch point of a fiber of this world while a simulation runs. */
    protected void reachSwitchPoint() {}

    /** Lets others run, if this world schedules its fibers itself; else false, and nothing was done. */
    protected boolean letOthersRun() {
        return false;
    }

    /** Something happened to the object that a log of a simulation tells. */
    protected void write(String what, Object on, Object value) {}

    /** A fiber of this world has met a thread of another one. */
    protected void meets(Thread stranger) {}

    /** True if the message is to be lost on its way. */
    protected boolean isLost(Object to, Object message) {
        return false;
    }

    /** True if signals of this world may take long on their way. */
    protected boolean delaysSignals() {
        return false;
    }

    /** True if the signal was taken, and arrives later than now. */
    protected boolean isDelayed(Object from, Object to, Object what, Runnable arrival) {
        return false;
    }

    /** Lets what is on its way from one to the other arrive. */
    protected void letArrive(Object from, Object to) {}

    /** True if this world keeps the failure, so that nobody else need be told. */
    protected boolean keepsFailure(String site, Throwable error) {
        return false;
    }

    /** The timers of this world, made on first use. */
    @SuppressWarnings("unchecked")
    public final <T> T timers(Supplier<T> make) {
        Object t = timers;
        if (t == null) {
            T made = make.get();
            t = TIMERS.compareAndSet(this, (Object) null, (Object) made) ? made : timers;
        }
        return (T) t;
    }

    /** What somebody keeps for this simulated world under this key, made on first use. */
    @SuppressWarnings("unchecked")
    public final <T> T room(Object key, Supplier<T> make) {
        return (T) rooms.computeIfAbsent(key, k -> make.get());
    }
}
