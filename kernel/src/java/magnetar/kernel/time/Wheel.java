package magnetar.kernel.time;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.Spin;
import magnetar.kernel.park.Parked;
import magnetar.kernel.report.Failures;
import magnetar.kernel.sched.Fault;

/**
 * The timers of one environment: a hierarchical wheel and one daemon thread.
 *
 * <p>Six levels of 64 slots; a slot of level n spans 64<sup>n</sup> ticks of one millisecond. Adding and
 * cancelling are O(1). A timer of a higher level moves down when its slot begins.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A timer is in no slot, or in the slot that its due tick and the wheel's current tick determine. The
 *       bit of a slot is set exactly when the slot is not empty.
 *   <li>No timer expires before it is due. It expires at most one tick late, plus the delay of the operating
 *       system's scheduler.
 *   <li>Timers expire in the order of their due ticks, and timers of one tick in the order of adding, however
 *       late the thread comes. A slot is a list in the order of adding. A slot of a higher level is emptied
 *       into lower ones before timers are added to these.
 *   <li>The thread sleeps until the beginning of the first slot that is not empty, and without a limit when
 *       all are empty. {@code wakeTick} is the tick it sleeps to. A thread that adds an earlier timer wakes
 *       it.
 *   <li>User code never runs on this thread, and {@link Timer#expire} is called outside of the lock.
 *   <li>A timer leaves the list of due timers before it expires. If memory runs out meanwhile, it is tried
 *       again after a pause, which is longer each time, because each try may make the JVM collect all of the
 *       heap. The thread survives whatever a timer or a report throws. So an error loses no timer.
 * </ol>
 *
 * <p>Source: Varghese and Lauck, scheme 7. Difference: a bit map of slots finds the next slot without
 * stepping through empty ticks. Rejected: a heap, because most timers are cancelled, which costs O(log n); a
 * single wheel with rounds, in which a far timer wakes the thread at each turn; a ReentrantLock. A fiber that
 * finds one taken parks, which costs more than all work under it (a sixth of a call, with a hundred callers
 * of one server).
 *
 * <p>Lock order: the lock, an int as a channel's, is the innermost one.
 */
public final class Wheel {
    private static final int BITS = 6;
    private static final int SLOTS = 1 << BITS;
    private static final int LEVELS = 6;
    private static final long TICK_NANOS = 1_000_000;
    private static final long NEVER = Long.MAX_VALUE;
    private static final int LONGEST_PAUSE = 128; // ticks
    private static final long SPAN = 1L << (BITS * LEVELS);

    private static final VarHandle LOCK;

    static {
        try {
            LOCK = MethodHandles.lookup().findVarHandle(Wheel.class, "locked", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final Environment environment;
    private final long origin;

    // 1 while locked. Set by any thread.
    private volatile int locked;

    // Guarded by the lock.
    private final Timer[] slots = new Timer[LEVELS * SLOTS];
    private final long[] occupied = new long[LEVELS];
    private long tick;
    private long wakeTick = NEVER;
    private int size;
    private Thread thread;

    // Only accessed by the thread that expires timers: the due ones that have not expired, linked as in a
    // slot; those for which there was no memory, which are tried again at a tick; and the last pause before.
    private Timer due;
    private Timer failed;
    private long retryTick = NEVER;
    private int pause;

    // Set by any thread.
    private volatile boolean ended;

    private Wheel(Environment environment) {
        this.environment = environment;
        this.origin = environment.nanoTime();
    }

    /** The wheel of this environment. */
    public static Wheel of(Environment environment) {
        return environment.timers(() -> new Wheel(environment));
    }

    /** True on the thread of a wheel, where user code must not run. */
    public static boolean isTimerThread() {
        return Thread.currentThread() instanceof WheelThread || Simulated.isExpiringTimers();
    }

    /** The number of waiting timers. */
    public int size() {
        lock();
        try {
            return size;
        } finally {
            unlock();
        }
    }

    /**
     * The waits that a timer ends: for the id of each, the nanoseconds until then. For inspection: holds the lock
     * for some nanoseconds per timer.
     */
    public Map<Long, Long> limits() {
        Map<Long, Long> limits = new HashMap<>();
        long now = environment.nanoTime();
        for (Timer t : waiting()) {
            Parked waiter = t.waiter();
            if (waiter != null) {
                limits.put(waiter.id(), Math.max(0, t.limit() - now));
            }
        }
        return limits;
    }

    private List<Timer> waiting() {
        lock();
        try {
            List<Timer> waiting = new ArrayList<>(size);
            for (Timer first : slots) {
                for (Timer t = first; t != null; t = t.next) {
                    waiting.add(t);
                }
            }
            return waiting;
        } finally {
            unlock();
        }
    }

    /** Starts the timer. */
    public void add(Timer timer) {
        boolean wake;
        lock();
        try {
            startThread(); // first: if there is no memory for the thread, no timer was added
            if (size == 0) {
                // A tick in the past is correct too: it only puts the timer into a higher level.
                tick = Math.max(tick, tickAt(environment.coarseNanos()));
            }
            long due = insert(timer);
            size++;
            wake = due < wakeTick;
            if (wake) {
                wakeTick = due;
            }
        } finally {
            unlock();
        }
        if (wake && !Fault.EARLIER_TIMER_WAKES_NO_WHEEL.isSeeded()) {
            LockSupport.unpark(thread);
        }
    }

    /** Stops the timer; false if it has expired, was stopped before or was never added. */
    public boolean cancel(Timer timer) {
        lock();
        try {
            if (timer.slot == Timer.NOWHERE) {
                return false;
            }
            unlink(timer);
            size--;
            return true;
        } finally {
            unlock();
        }
    }

    /** True if the timer has neither expired nor been stopped. */
    public boolean isWaiting(Timer timer) {
        lock();
        try {
            return timer.slot != Timer.NOWHERE;
        } finally {
            unlock();
        }
    }

    /**
     * For a simulated environment: when its timers have to be checked next, on its clock; {@link
     * Long#MAX_VALUE} without timers.
     */
    public long nextNanos() {
        lock();
        try {
            long first = firstTick();
            return first == NEVER ? NEVER : origin + first * TICK_NANOS;
        } finally {
            unlock();
        }
    }

    /** Expires the due timers of a simulated environment. */
    public void expireDue() {
        lock();
        try {
            advance(tickAt(environment.nanoTime()));
            wakeTick = firstTick();
        } finally {
            unlock();
        }
        expireAll();
    }

    private void lock() {
        while (!LOCK.compareAndSet(this, 0, 1)) {
            for (int turns = 0; locked != 0; ) {
                turns = Spin.turn(turns);
            }
        }
    }

    private void unlock() {
        LOCK.setRelease(this, 0);
    }

    /** Ends the thread, because the environment has ended. No timer of it expires any more. */
    public void end() {
        ended = true;
        lock();
        Thread running = thread;
        unlock();
        LockSupport.unpark(running);
    }

    private void startThread() {
        if (thread == null && !environment.movesTimers()) {
            Thread starting = new WheelThread(this);
            starting.start();
            thread = starting;
        }
    }

    private long tickAt(long nanos) {
        return Math.floorDiv(nanos - origin, TICK_NANOS);
    }

    /** Rounds up: the first tick at which the timer is due. */
    private long dueTick(Timer timer) {
        return -Math.floorDiv(origin - timer.dueNanos, TICK_NANOS);
    }

    /** Links the timer into its slot and returns the tick at which the thread must look at that slot. */
    private long insert(Timer timer) {
        long due = Math.min(Math.max(dueTick(timer), tick + 1), tick + SPAN - 1);
        int level = levelOf(due);
        int index = (int) (due >>> (BITS * level)) & (SLOTS - 1);
        link(timer, level * SLOTS + index);
        return due >>> (BITS * level) << (BITS * level);
    }

    /** The lowest level at which the due tick differs from the current tick only in this level's digit. */
    private int levelOf(long due) {
        long differing = due ^ tick;
        int level = 0;
        while (level < LEVELS - 1 && differing >>> (BITS * (level + 1)) != 0) {
            level++;
        }
        return level;
    }

    private void link(Timer timer, int slot) {
        timer.slot = slot;
        slots[slot] = append(slots[slot], timer);
        occupied[slot / SLOTS] |= 1L << slot;
    }

    /**
     * Adds a timer to the end of a list and returns the first one, whose {@code previous} is the last one.
     */
    private static Timer append(Timer first, Timer timer) {
        if (first == null) {
            timer.previous = timer;
            return timer;
        }
        timer.previous = first.previous;
        first.previous.next = timer;
        first.previous = timer;
        return first;
    }

    private void unlink(Timer timer) {
        int slot = timer.slot;
        if (timer == slots[slot]) {
            slots[slot] = timer.next;
        } else {
            timer.previous.next = timer.next;
        }
        Timer after = timer.next == null ? slots[slot] : timer.next;
        if (after != null) {
            after.previous = timer.previous;
        }
        if (slots[slot] == null) {
            occupied[slot / SLOTS] &= ~(1L << slot);
        }
        timer.slot = Timer.NOWHERE;
        timer.previous = null;
        timer.next = null;
    }

    /** The tick at which the first slot that is not empty begins. */
    private long firstTick() {
        long first = NEVER;
        for (int level = 0; level < LEVELS; level++) {
            if (occupied[level] != 0) {
                first = Math.min(first, firstTickOf(level));
            }
        }
        return first;
    }

    private long firstTickOf(int level) {
        int shift = BITS * level;
        long now = tick >>> shift;
        int ahead = Long.numberOfTrailingZeros(Long.rotateRight(occupied[level], (int) (now + 1)));
        return now + 1 + ahead << shift;
    }

    /** Moves the wheel to the present, and the due timers to the end of the list {@code due}. */
    private void advance(long present) {
        for (long t = firstTick(); t <= present; t = firstTick()) {
            tick = t;
            for (int level = LEVELS - 1; level > 0; level--) {
                if ((t & (1L << (BITS * level)) - 1) == 0) {
                    cascade(level);
                }
            }
            takeDue();
        }
        tick = Math.max(tick, present);
        if (retryTick <= tick) {
            retryFailed();
        }
    }

    private void retryFailed() {
        retryTick = NEVER;
        for (Timer t = failed; t != null; t = failed) {
            failed = withoutFirst(t);
            due = append(due, t);
        }
    }

    /** Re-inserts the timers of the slot that begins now. Timers due at this very tick go to level 0. */
    private void cascade(int level) {
        int slot = level * SLOTS + ((int) (tick >>> (BITS * level)) & (SLOTS - 1));
        while (slots[slot] != null) {
            Timer t = slots[slot];
            unlink(t);
            if (dueTick(t) <= tick) {
                link(t, (int) tick & (SLOTS - 1));
            } else {
                insert(t);
            }
        }
    }

    private void takeDue() {
        int slot = (int) tick & (SLOTS - 1);
        while (slots[slot] != null) {
            Timer t = slots[slot];
            unlink(t);
            size--;
            due = append(due, t);
        }
    }

    /** One round of the thread: expires the due timers, then sleeps. */
    private void round() {
        long sleepTo;
        boolean idle;
        lock();
        try {
            advance(tickAt(environment.nanoTime()));
            idle = due == null;
            sleepTo = idle ? Math.min(firstTick(), retryTick) : tick;
            wakeTick = sleepTo;
        } finally {
            unlock();
        }
        expireAll();
        if (sleepTo == NEVER) {
            LockSupport.park(this);
        } else if (idle) {
            LockSupport.parkNanos(this, origin + sleepTo * TICK_NANOS - environment.nanoTime());
        }
    }

    /** Expires the due timers. Those that ran out of memory are tried again later. */
    private void expireAll() {
        for (Timer t = due; t != null; t = due) {
            due = withoutFirst(t);
            try {
                t.expire();
            } catch (OutOfMemoryError noRoom) {
                failed = append(failed, t);
            } catch (Throwable e) {
                Failures.report(Thread.currentThread(), e);
            }
        }
        if (failed == null) {
            pause = 0;
        } else if (retryTick == NEVER) {
            pause = Math.clamp(2 * pause, 1, LONGEST_PAUSE);
            retryTick = tickAt(environment.nanoTime()) + pause;
        }
    }

    private static Timer withoutFirst(Timer first) {
        Timer next = first.next;
        if (next != null) {
            next.previous = first.previous;
        }
        first.next = null;
        first.previous = null;
        return next;
    }

    /** The one thread of a wheel. */
    private static final class WheelThread extends Thread {
        private final Wheel wheel;

        WheelThread(Wheel wheel) {
            super(null, null, "magnetar-timer", 0, false);
            this.wheel = wheel;
            Fibers.adopt(this, wheel.environment);
            setDaemon(true);
        }

        @Override
        public void run() {
            while (!wheel.ended) {
                try {
                    wheel.round();
                } catch (Throwable e) { // no other thread would replace this one
                    LockSupport.parkNanos(TICK_NANOS);
                }
            }
        }
    }
}
