package magnetar.kernel.sched;

import java.util.concurrent.locks.LockSupport;

/**
 * The scheduler monitor: a platform thread that ticks while fibers wake each other, and runs those that no
 * carrier would reach.
 *
 * <p>A carrier polls external submissions only when its own queue is empty. Two fibers that answer each other
 * for ever keep that queue from running empty, so a fiber that a timer woke would wait for ever. Also, a
 * sleeping carrier gets no signal for a fiber that was handed over lazily ({@link HandOff}). So a tick that
 * finds a fiber which may wait too long submits a probe, an empty virtual thread, from outside; but not while
 * the last probe has not run. Unneeded probes cost: each wakes a carrier, which steals one of two fibers that
 * answer each other (rendezvous 240 ns instead of 175). While a probe has not run, {@link #takeOutside} tells
 * the carriers to poll external submissions, which {@link HandOff} does. That moves the probe, and the fibers
 * queued with it, into the carriers' queues.
 *
 * <p>Invariants:
 * <ol>
 *   <li>After a reminder a tick follows within three times {@value #TICK_NANOS} ns that does one of three
 *       things. It starts a probe. Or it finds one that has not run, which keeps a carrier from going to
 *       sleep. Or it sees that no external submission waits and that the carriers' queues run empty
 *       ({@link Scheduler#mayBeStranded}). No reminder is lost: the reminder writes {@code pending}, then
 *       reads {@code asleep}; the ticker writes {@code asleep}, then reads {@code pending}. At least one sees
 *       the other.
 *   <li>After each start of a probe, and each tick that finds it not run, {@code outside} is true until a
 *       carrier has read it.
 *   <li>After each {@value #PATIENCE} ticks in a row at which a probe has not run, every fiber steps aside
 *       once, at its next operation ({@link Delays}): it parks for a moment. Then the carriers' queues run
 *       empty, and the fibers return as external submissions. This serves schedulers without hand-over and
 *       fibers that only yield, where no carrier polls external submissions. A fiber steps aside once and not
 *       until the probe has run, because a program that starts many fibers from outside delays the probe too.
 *   <li>With hand-over, fibers also step aside after {@value #LONG_PATIENCE} ticks in a row at which a fiber
 *       may be stranded, and later if there are many fibers. This serves a fiber in the queue of a busy
 *       carrier. Fibers on the other carriers may answer each other meanwhile and run the probes, so that no
 *       probe is late.
 *   <li>There is at most one probe. The ticker does not tick while there is neither a reminder nor a probe.
 * </ol>
 *
 * <p>Compare Go's {@code sysmon}.
 */
public final class Ticker {
    private static final long TICK_NANOS = 1_000_000;
    private static final long LOOK_AGAIN_NANOS = TICK_NANOS / 10;
    private static final int PATIENCE = 10;
    private static final int LONG_PATIENCE = 100;

    // Stepping aside costs each fiber a park, so many fibers do it less often.
    private static final int FIBERS_FOR_A_TICK = 4;

    // Set by a thread that wakes fibers, cleared by the ticker.
    private static volatile boolean pending;

    // Set by the ticker, or by a carrier that has left some submissions; cleared by a carrier.
    private static volatile boolean outside;

    // Written by the ticker.
    private static volatile boolean asleep;
    private static volatile long lastTick; // 0 while it sleeps

    // Only accessed by the ticker.
    private static Thread probe;
    private static int waited; // ticks for which this probe has not run
    private static int crowded; // ticks since no fiber could be stranded, or since all fibers stepped aside

    /**
     * Linked at start-up, while there is memory: a lambda whose linkage ran out of memory may stay broken for
     * ever.
     */
    static final Runnable NOTHING = () -> {};

    // Set once, before the first tick.
    private static Scheduler scheduler;
    private static Thread thread;

    private Ticker() {}

    /** {@code System.nanoTime} at the last tick, some milliseconds ago at most; 0 if no tick is recent. */
    public static long lastTick() {
        return lastTick;
    }

    /** Makes the ticker tick, if it sleeps. */
    public static void remind() {
        if (!pending) {
            pending = true;
        }
        if (asleep && !Fault.TICKER_SLEEPS_ON.isSeeded()) {
            LockSupport.unpark(thread);
        }
    }

    /** Records that external submissions may wait. */
    static void tellOutside() {
        outside = true;
    }

    /** True if {@link #tellOutside} was called since the last call of this method, which clears it. */
    static boolean takeOutside() {
        boolean told = outside;
        if (told) {
            outside = false;
        }
        return told;
    }

    /** Starts to tick for the scheduler. Called once. */
    static void tickFor(Scheduler chosen) {
        scheduler = chosen;
        thread = new Thread(null, Ticker::tick, "magnetar-ticker", 0, false);
        thread.setDaemon(true);
        thread.start();
    }

    private static void tick() {
        for (;;) {
            try {
                LockSupport.parkNanos(TICK_NANOS);
                look();
            } catch (Throwable noRoom) {
                pending = true; // the probe could not start: the next tick tries again
            }
        }
    }

    private static void look() {
        if (probe != null && probe.isAlive()) {
            beat();
            tellOutside();
            crowd(++waited % PATIENCE == 0);
        } else if (pending) {
            pending = false;
            beat();
            if (isNeeded()) {
                probe();
                crowd(false);
            } else {
                crowded = 0;
            }
        } else if (scheduler.handsOver() && scheduler.mayBeStranded()) {
            probe(); // a fiber was handed over at the last tick, while its queue seemed empty
        } else {
            crowded = 0;
            sleep();
        }
    }

    private static void crowd(boolean late) {
        crowded++;
        if (!Fault.NO_FIBER_STEPS_ASIDE.isSeeded() && (late || scheduler.handsOver() && crowded >= LONG_PATIENCE && crowded >= Delays.fibers() / FIBERS_FOR_A_TICK)) {
            crowded = 0;
            Delays.add();
        }
    }

    /**
     * Checks twice: the ticker may have taken the core of a carrier, so that its queue does not move during
     * one check.
     */
    private static boolean isNeeded() {
        if (!scheduler.mayBeStranded()) {
            return false;
        }
        LockSupport.parkNanos(LOOK_AGAIN_NANOS);
        return scheduler.mayBeStranded();
    }

    private static void beat() {
        lastTick = System.nanoTime() | 1;
    }

    private static void probe() {
        waited = 0;
        probe = Thread.startVirtualThread(NOTHING);
        tellOutside();
    }

    private static void sleep() {
        lastTick = 0;
        asleep = true;
        if (!pending) {
            LockSupport.park();
        }
        asleep = false;
    }
}
