package magnetar.kernel.fiber;

import java.lang.ref.ReferenceQueue;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import magnetar.kernel.sched.Fault;
import magnetar.kernel.sched.Scheduler;
import magnetar.kernel.sched.Schedulers;
import magnetar.kernel.sched.Settings;

/**
 * Starts fibers, and keeps the only list of them.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A fiber is in the list from before its first instruction until after its last one.
 *   <li>The list refers to a collectable fiber weakly. A fiber that was collected leaves the list at a later
 *       start.
 * </ol>
 *
 * <p>The JVM holds a plainly started virtual thread until the thread ends. A collectable one is started
 * {@link Scheduler#startUntracked untracked}. Where that is off, it is started through an executor of its
 * own, to which only its body refers. The body shuts the executor down last, which removes it from the JVM's
 * list of executors at once instead of at the next collection. With the property
 * {@code magnetar.track-go-blocks} no fiber is collectable, and the JDK's thread dumps show all.
 *
 * <p>Price of the list per start: one lock and unlock of a shard, twice; 8 to 20 bytes. Rejected: threads that
 * run one body after the other (docs/decisions/0032).
 */
public final class Fibers {
    static final ReferenceQueue<Thread> COLLECTED = new ReferenceQueue<>();
    private static final boolean TRACKED = Settings.flag("magnetar.track-go-blocks", false);
    private static final Shard[] SHARDS = new Shard[16];
    private static final AtomicLong LOST = new AtomicLong();

    static {
        for (int i = 0; i < SHARDS.length; i++) {
            SHARDS[i] = new Shard((byte) i);
        }
    }

    private Fibers() {}

    /** How long a fiber lives that is not reachable. */
    public enum Hold {
        /** Until it ends, because it has an owner. */
        STRONG,
        /** Until the object that it waits for is unreachable. */
        WEAK
    }

    /** Starts a fiber in the environment of the current one. */
    public static Fiber start(String name, Hold hold, Runnable body) {
        return start(name, hold, FiberBody.of(body));
    }

    /** Starts a fiber in the environment of the current one. */
    public static Fiber start(String name, Hold hold, FiberBody body) {
        Fiber starter = Fiber.current();
        if (hold == Hold.WEAK && !TRACKED && !Fault.ABANDONED_FIBER_IS_HELD.isSeeded()) {
            return startWeak(starter, name, body);
        }
        Fiber fiber = prepare(starter, name, null, body);
        begin(fiber);
        return fiber;
    }

    /**
     * Lists and holds a fiber that {@link #begin} will start. Its owner can cancel it before it runs. A body
     * that is no {@link FiberBody} calls {@link #begun} first and {@link #ended} last.
     */
    public static Fiber prepare(String name, Object owner, Runnable body) {
        return prepare(Fiber.current(), name, owner, body);
    }

    /**
     * The same, for a fiber that takes no context. The starter may hold a lock, and capturing a context can
     * call accessors of the program.
     */
    public static Fiber prepareWithoutContext(String name, Object owner, Runnable body) {
        Environment environment = Fiber.current().environment();
        return prepare(environment, environment.newThread(name, body), owner, body, null);
    }

    /** The same, for a fiber without an owner in this environment, with the {@link Fiber#outgoing} context of another one. */
    public static Fiber prepare(Environment environment, String name, Object outgoing, FiberBody body) {
        return prepare(environment, environment.newThread(name, body), null, body, outgoing);
    }

    /** The same as {@link #prepare}, on a platform thread. */
    public static Fiber prepareOnPlatform(String name, Object owner, Runnable body) {
        return prepare(Fiber.current(), Fiber.current().environment().newPlatformThread(name, body), owner, body);
    }

    /** Starts a prepared fiber. */
    public static void begin(Fiber fiber) {
        try {
            fiber.environment().start(fiber.held);
        } catch (Throwable t) {
            discard(fiber);
            throw t;
        }
    }

    /** Records that the current fiber runs its body now, and returns it. */
    public static Fiber begun() {
        Schedulers.chosen().resumed();
        Fiber fiber = Fiber.current();
        fiber.begins();
        return fiber;
    }

    /** Drops the current fiber, whose body has ended. */
    public static void ended(Fiber fiber) {
        discard(fiber);
        fiber.clear(); // else the garbage collector queues each ended fiber, for all starters to poll
    }

    /** Drops a fiber that has ended, or was prepared and will not be started. */
    public static void discard(Fiber fiber) {
        fiber.held = null;
        forget(fiber);
    }

    private static Fiber prepare(Fiber starter, String name, Object owner, Runnable body) {
        return prepare(starter, starter.environment().newThread(name, body), owner, body);
    }

    private static Fiber prepare(Fiber starter, Thread thread, Object owner, Runnable body) {
        return prepare(starter.environment(), thread, owner, body, starter.outgoing());
    }

    private static Fiber prepare(Environment environment, Thread thread, Object owner, Runnable body, Object context) {
        Fiber fiber = enroll(thread, environment, body).inherit(context, owner);
        fiber.hold(thread);
        return fiber;
    }

    private static Fiber startWeak(Fiber starter, String name, FiberBody body) {
        Object context = starter.outgoing();
        Thread thread = starter.environment().newThread(name, body);
        Fiber fiber = enroll(thread, starter.environment(), body).inherit(context, null);
        if (!Environment.startUntracked(thread)) {
            body.executor = Executors.newThreadPerTaskExecutor(new Given(thread));
            body.executor.execute(body);
        }
        return fiber;
    }

    private record Given(Thread thread) implements ThreadFactory {
        @Override
        public Thread newThread(Runnable task) {
            return thread;
        }
    }

    /** Gives a fiber to a thread that was not started yet. */
    public static Fiber adopt(Thread thread, Environment environment) {
        Fiber fiber = new Fiber(thread, environment);
        thread.setUncaughtExceptionHandler(fiber);
        return fiber;
    }

    private static Fiber enroll(Thread thread, Environment environment, Runnable body) {
        Fiber fiber = adopt(thread, environment);
        if (body instanceof FiberBody b) {
            b.fiber = fiber;
        }
        forgetCollected();
        SHARDS[(int) thread.threadId() & (SHARDS.length - 1)].add(fiber);
        return fiber;
    }

    static void forgetCollected() {
        for (Object f = COLLECTED.poll(); f != null; f = COLLECTED.poll()) {
            Fiber fiber = (Fiber) f;
            forget(fiber);
            fiber.lose();
            LOST.incrementAndGet();
        }
    }

    static void forget(Fiber fiber) {
        byte shard = fiber.shard;
        if (shard >= 0) {
            SHARDS[shard].remove(fiber);
        }
    }

    static Fiber find(Thread thread) {
        Fiber[] found = new Fiber[1];
        SHARDS[(int) thread.threadId() & (SHARDS.length - 1)].each(f -> {
            if (f.refersTo(thread)) {
                found[0] = f;
            }
        });
        return found[0];
    }

    /**
     * The threads of all fibers that have not ended. In a simulation: its own, in the order of creation.
     * Elsewhere: those in no simulation, unordered.
     */
    public static List<Thread> threads() {
        Environment environment = Environment.current();
        List<Thread> threads = new ArrayList<>();
        for (Shard s : SHARDS) {
            s.each(f -> {
                Thread t = f.get();
                if (t != null && (environment == Environment.REAL ? !f.environment().movesTimers() : f.environment() == environment)) {
                    threads.add(t);
                }
            });
        }
        if (environment != Environment.REAL) {
            threads.sort(Comparator.comparingLong(Thread::threadId));
        }
        return threads;
    }

    /**
     * Passes each fiber that has not ended to the visitor, which must be short and not call this class.
     * Allocates nothing.
     */
    public static void each(Consumer<Fiber> visit) {
        for (Shard s : SHARDS) {
            s.each(visit);
        }
    }

    /** How many fibers were collected before their bodies had ended. */
    public static long lost() {
        forgetCollected();
        return LOST.get();
    }

    /** How many fibers have not ended. */
    public static int count() {
        forgetCollected();
        int n = 0;
        for (Shard s : SHARDS) {
            n += s.size();
        }
        return n;
    }
}
