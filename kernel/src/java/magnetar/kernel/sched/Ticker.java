package magnetar.kernel.sched;

import java.util.concurrent.locks.LockSupport;

/**
 * A platform thread that ticks while fibers wake each other, and sees to it that those run whom the carriers do not come to by themselves.
 *
 * <p>A carrier runs what is in its own queue before it looks at what came from outside: fibers that a platform thread started or woke, a timer for
 * instance. Two fibers that answer each other for ever keep that queue from running empty, so that all others would wait for ever. And a carrier
 * that sleeps is not told of a fiber that was handed over lazily ({@link HandOff}). So a tick that finds somebody who may wait for too long starts a probe
 * from outside, an ordinary submission, unless the last one has not run yet. Without need it starts none: a probe wakes a carrier, which takes one of two
 * fibers that answer each other, and both go on from core to core (rendezvous 240 ns instead of 175). While a probe has not run, the carriers are told to
 * look {@link #takeOutside outside} of their queues, which {@link HandOff} does for them: the probe and all others who wait there get into the queues.
 *
 * <p>Invariants:
 * <ol>
 *   <li>After a reminder there is a tick, within three times {@value #TICK_NANOS} ns, that starts a probe; or finds one that has not run, which
 *       keeps a carrier from going to sleep; or sees that nobody waits outside and that the queues of the carriers run empty ({@link Scheduler#mayBeStranded}). {@code pending}
 *       is written before {@code asleep} is read; the ticker writes {@code asleep} before it reads {@code pending}.
 *   <li>At each tick that finds a probe which has not run, and after each start of one, {@code outside} is true until a carrier has seen it.
 *   <li>Each {@value #PATIENCE} ticks in a row that a probe has not run, every fiber steps aside once, at its next operation ({@link Delays}): the queues of
 *       the carriers run empty, and whoever stepped aside comes back from outside. This is for schedulers that hand nobody over, and for fibers that only
 *       yield, where no carrier takes in what waits outside. They step aside once and not until the probe has run, since a probe is late too where a program starts
 *       many fibers from outside.
 *   <li>Where fibers are handed over they step aside also after {@value #LONG_PATIENCE} ticks in a row at which a fiber may be stranded; the more fibers there
 *       are, the later. This is for a fiber in the queue of a carrier that computes, while fibers on the other carriers answer each other and take the probes in,
 *       so that no probe is late.
 *   <li>There is at most one probe, and no tick while nobody reminds and no probe is under way.
 * </ol>
 */
public final class Ticker {
    private static final long TICK_NANOS = 1_000_000;
    private static final long LOOK_AGAIN_NANOS = TICK_NANOS / 10;
    private static final int PATIENCE = 10;
    private static final int LONG_PATIENCE = 100;
    private static final int FIBERS_FOR_A_TICK = 4; // each that steps aside parks for a moment: the more there are, the longer it is put off

    // Written by whoever wakes, taken back by the ticker.
    private static volatile boolean pending;

    // Set by the ticker, or by a carrier that has left some; taken back by a carrier.
    private static volatile boolean outside;

    // Written by the ticker.
    private static volatile boolean asleep;
    private static volatile long lastTick; // 0 while it sleeps

    // Only accessed by the ticker.
    private static Thread probe;
    private static int waited; // ticks of this probe
    private static int crowded; // ticks since one at which nobody was stranded, or since all stepped aside

    /** Linked while there is memory for it: a lambda whose linkage memory did not suffice for may stay broken for ever. */
    static final Runnable NOTHING = () -> {};

    // Set once, before the first tick.
    private static Scheduler scheduler;
    private static Thread thread;

    private Ticker() {}

    /** The clock of {@code System.nanoTime} at the last tick, some milliseconds ago at most; 0 if none is recent. */
    public static long lastTick() {
        return lastTick;
    }

    /** Makes it tick, if it does not. */
    public static void remind() {
        if (!pending) {
            pending = true;
        }
        if (asleep && !Fault.TICKER_SLEEPS_ON.isPlanted()) {
            LockSupport.unpark(thread);
        }
    }

    /** Somebody may wait outside of the carriers' queues. */
    static void tellOutside() {
        outside = true;
    }

    /** True if it was said since the last call that somebody may wait outside. Takes that back. */
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
                pending = true; // no probe: at the next tick again
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
            probe(); // handed over at the last tick, when its queue seemed empty
        } else {
            crowded = 0;
            sleep();
        }
    }

    private static void crowd(boolean late) {
        crowded++;
        if (!Fault.NO_FIBER_STEPS_ASIDE.isPlanted() && (late || scheduler.handsOver() && crowded >= LONG_PATIENCE && crowded >= Delays.fibers() / FIBERS_FOR_A_TICK)) {
            crowded = 0;
            Delays.add();
        }
    }

    /** Looks twice: the ticker itself may have taken the core of a carrier, whose queue stands still meanwhile. */
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
