package magnetar.kernel.time;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.park.Failures;
import magnetar.kernel.park.Fibers;
import magnetar.kernel.park.Spin;
import magnetar.kernel.park.World;

/**
 * The timers of one world: a hierarchical wheel and one daemon thread.
 *
 * <p>Six levels of 64 slots; a slot of level n spans 64<sup>n</sup> ticks of one millisecond. Adding and cancelling are O(1).
 * A timer of a higher level moves down when its slot begins.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A timer is in the slot that its due tick and the wheel's current tick determine, or nowhere. The bit of a slot is set
 *       exactly when the slot is not empty.
 *   <li>No timer expires before it is due; it expires at most one tick late, and what the scheduler adds.
 *   <li>The thread sleeps to the beginning of the first slot that is not empty, and without limit when all are empty.
 *       {@code wakeTick} is the tick it sleeps to; whoever adds an earlier timer wakes it.
 *   <li>User code never runs on this thread, and {@link Timer#expire} is called outside of the lock.
 * </ol>
 *
 * <p>Source: Varghese and Lauck, scheme 7. Difference: the bit map of slots finds the next slot without stepping through empty
 * ticks. Refused: a heap (O(log n) to cancel, and most timers are cancelled), a single wheel with rounds (a far timer wakes
 * the thread at each turn). The lock is the last in every order: a word, as a channel's, since a fiber that finds a ReentrantLock taken parks, which costs
 * more than all that is done under it (a sixth of a call of a server by a hundred callers).
 */
public final class Wheel {
    static final int NOWHERE = -1;

    private static final int BITS = 6;
    private static final int SLOTS = 1 << BITS;
    private static final int LEVELS = 6;
    private static final long TICK_NANOS = 1_000_000;
    private static final long NEVER = Long.MAX_VALUE;
    private static final long SPAN = 1L << (BITS * LEVELS);

    private static final VarHandle LOCK;

    static {
        try {
            LOCK = MethodHandles.lookup().findVarHandle(Wheel.class, "word", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final World world;
    private final long origin;

    // 1 while locked. Set by any thread.
    private volatile int word;

    // Guarded by the lock.
    private final Timer[] slots = new Timer[LEVELS * SLOTS];
    private final long[] occupied = new long[LEVELS];
    private long tick;
    private long wakeTick = NEVER;
    private int size;
    private Thread thread;

    private Wheel(World world) {
        this.world = world;
        this.origin = world.nanoTime();
    }

    /** The wheel of this world. */
    public static Wheel of(World world) {
        return world.timers(() -> new Wheel(world));
    }

    /** True on the thread of a wheel, where user code must not run. */
    public static boolean isTimerThread() {
        return Thread.currentThread() instanceof WheelThread || World.isExpiringTimers();
    }

    /** How many timers are waiting. */
    public int size() {
        lock();
        try {
            return size;
        } finally {
            unlock();
        }
    }

    /** Starts the timer. */
    public void add(Timer timer) {
        boolean wake;
        lock();
        try {
            if (size == 0) {
                tick = Math.max(tick, tickAt(world.coarseNanos())); // a tick in the past is as good: a timer is in a higher level then
            }
            long due = insert(timer);
            size++;
            wake = due < wakeTick;
            if (wake) {
                wakeTick = due;
                startThread();
            }
        } finally {
            unlock();
        }
        if (wake) {
            LockSupport.unpark(thread);
        }
    }

    /** Stops the timer; false if it has expired, was stopped before or was never added. */
    public boolean cancel(Timer timer) {
        lock();
        try {
            if (timer.slot == NOWHERE) {
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
            return timer.slot != NOWHERE;
        } finally {
            unlock();
        }
    }

    /** When the timers of a simulated world have to be looked at next, on its clock; {@link Long#MAX_VALUE} if there are none. */
    public long nextNanos() {
        lock();
        try {
            long first = firstTick();
            return first == NEVER ? NEVER : origin + first * TICK_NANOS;
        } finally {
            unlock();
        }
    }

    /** Expires what is due in a simulated world. */
    public void expireDue() {
        Timer due;
        lock();
        try {
            due = advance(tickAt(world.nanoTime()));
            wakeTick = firstTick();
        } finally {
            unlock();
        }
        expireAll(due);
    }

    private void lock() {
        while (!LOCK.compareAndSet(this, 0, 1)) {
            for (int turns = 0; word != 0; ) {
                turns = Spin.turn(turns);
            }
        }
    }

    private void unlock() {
        LOCK.setRelease(this, 0);
    }

    private void startThread() {
        if (thread == null && !world.movesTimers()) {
            thread = new WheelThread(this);
            thread.start();
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

    /** The lowest level at which the due tick differs from the current tick in this level's digit only. */
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
        timer.next = slots[slot];
        if (timer.next != null) {
            timer.next.previous = timer;
        }
        slots[slot] = timer;
        occupied[slot / SLOTS] |= 1L << slot;
    }

    private void unlink(Timer timer) {
        int slot = timer.slot;
        if (timer.previous == null) {
            slots[slot] = timer.next;
        } else {
            timer.previous.next = timer.next;
        }
        if (timer.next != null) {
            timer.next.previous = timer.previous;
        }
        if (slots[slot] == null) {
            occupied[slot / SLOTS] &= ~(1L << slot);
        }
        timer.slot = NOWHERE;
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

    /** Moves the wheel to the present and returns the timers that are due, linked. */
    private Timer advance(long present) {
        Timer due = null;
        for (long t = firstTick(); t <= present; t = firstTick()) {
            tick = t;
            for (int level = LEVELS - 1; level > 0; level--) {
                if ((t & (1L << (BITS * level)) - 1) == 0) {
                    cascade(level);
                }
            }
            due = takeDue(due);
        }
        tick = Math.max(tick, present);
        return due;
    }

    /** Re-inserts the timers of the slot that begins now; those due at this very tick go to level 0. */
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

    private Timer takeDue(Timer due) {
        int slot = (int) tick & (SLOTS - 1);
        while (slots[slot] != null) {
            Timer t = slots[slot];
            unlink(t);
            size--;
            t.next = due;
            due = t;
        }
        return due;
    }

    /** One turn of the thread: expires what is due, then sleeps. */
    private void turn() {
        Timer due;
        long sleepTo;
        lock();
        try {
            due = advance(tickAt(world.nanoTime()));
            sleepTo = due == null ? firstTick() : tick;
            wakeTick = sleepTo;
        } finally {
            unlock();
        }
        expireAll(due);
        if (sleepTo == NEVER) {
            LockSupport.park(this);
        } else if (due == null) {
            LockSupport.parkNanos(this, origin + sleepTo * TICK_NANOS - world.nanoTime());
        }
    }

    private static void expireAll(Timer first) {
        for (Timer t = first; t != null; ) {
            Timer next = t.next;
            t.next = null;
            try {
                t.expire();
            } catch (Throwable e) {
                Failures.report(Thread.currentThread(), e);
            }
            t = next;
        }
    }

    /** The one thread of a wheel. */
    private static final class WheelThread extends Thread {
        private final Wheel wheel;

        WheelThread(Wheel wheel) {
            super(null, null, "magnetar-timer", 0, false);
            this.wheel = wheel;
            Fibers.adopt(this, wheel.world);
            setDaemon(true);
        }

        @Override
        public void run() {
            for (;;) {
                wheel.turn();
            }
        }
    }
}
