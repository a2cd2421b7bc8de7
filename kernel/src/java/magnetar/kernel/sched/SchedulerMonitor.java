package magnetar.kernel.sched;

import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.report.NoMemory;

/**
 * The scheduler monitor: a platform thread that looks after fibers which no carrier would reach.
 *
 * <p>A carrier polls external submissions only when its own queue is empty. Two fibers that answer each other
 * for ever keep that queue from running empty, so a fiber that a timer woke would wait for ever. Also, a
 * sleeping carrier gets no signal for a fiber that was handed over lazily ({@link HandOff}). So a tick that
 * finds a fiber which may wait too long submits a probe, an empty virtual thread, from outside. At most one
 * probe is in flight. Unneeded probes cost: each wakes a carrier, which steals one of two fibers that
 * answer each other (rendezvous 240 ns instead of 175). While a probe has not run, {@link #takePollRequest}
 * tells the carriers to poll external submissions, which {@link HandOff} does. That moves the probe, and the
 * fibers queued with it, into the carriers' queues.
 *
 * <p>Invariants:
 * <ol>
 *   <li>After a reminder a tick follows within three milliseconds that does one of three
 *       things. It starts a probe. Or it finds one that has not run, which keeps a carrier from going to
 *       sleep. Or it sees that no external submission waits and that the carriers' queues run empty
 *       ({@link Scheduler#mayBeStranded}). No reminder is lost: the reminder writes {@code pending}, then
 *       reads {@code asleep}; the monitor writes {@code asleep}, then reads {@code pending}. At least one sees
 *       the other.
 *   <li>After each start of a probe, and each tick that finds it not run, {@code pollRequested} is true until
 *       a carrier has read it.
 *   <li>Carriers are {@link Carriers#addOrSignal added} in two cases, and only if no carrier is idle. In the first
 *       one, a fiber may have waited for 10 ms of ticks in a row, and more carriers compute than were added. In the
 *       second one, for 100 ms no carrier has read {@code pollRequested} and the number of external submissions
 *       stayed about the same: the carriers only run fibers that yield, which the JDK submits again and again. Then
 *       one carrier is added. So neither fibers that wake each other nor a backlog of submissions add any.
 *   <li>If for a second a fiber may have waited beside fibers that compute and none can be added, standard error says
 *       so, once.
 *   <li>While carriers are added the monitor does not sleep, reminds itself each 10 ms, and counts the carriers
 *       that compute. One is taken back when, for a second longer than not, fewer computed than were added.
 *   <li>A tick counts as three milliseconds at most. So a pause of the whole JVM, in which nothing could run,
 *       does not look like a computation.
 *   <li>While there is neither a reminder nor a probe, the monitor still ticks every 100 ms, because a fiber
 *       that the JDK itself woke, from a sleep or a lock, sends no reminder, and may compute.
 * </ol>
 *
 * <p>Compare Go's {@code sysmon}.
 */
public final class SchedulerMonitor {
    /** For how long a fiber waits, or a carrier runs the same body, until that counts as long. */
    static final long PATIENCE_NANOS = 10_000_000;

    private static final long TICK_NANOS = 1_000_000;
    private static final long LONGEST_TICK_NANOS = 3_000_000;
    private static final long LOOK_AGAIN_NANOS = TICK_NANOS / 10;
    private static final long SLEEP_NANOS = 100 * TICK_NANOS;
    private static final long FAILED_NANOS = 100 * TICK_NANOS;
    private static final long UNNEEDED_NANOS = 1000 * TICK_NANOS;
    private static final long IGNORED_NANOS = 100 * TICK_NANOS;
    private static final int SAME_NUMBER = 64; // a carrier takes each submission away for a moment
    private static final long STARVED_NANOS = 1000 * TICK_NANOS;

    private static final Runnable TELL_STARVATION = () -> System.err.println(Carriers.exhausted());

    // Set by a thread that wakes fibers, cleared by the monitor.
    private static volatile boolean pending;

    // Set by the monitor, or by a carrier that has left some submissions; cleared by a carrier.
    private static volatile boolean pollRequested;

    // Written by the monitor.
    private static volatile boolean asleep;
    private static volatile boolean late;
    private static volatile long lastTick; // 0 while it sleeps

    // Only accessed by the monitor.
    private static Thread probe;
    private static long probed = System.nanoTime(); // when it started
    private static long ticked = System.nanoTime(); // the last tick
    private static long crowdedFor; // how long the ticks in a row took at which a fiber may have waited
    private static long ignoredFor; // how long no carrier read that it is asked to poll, while submissions stayed about as many
    private static int submissions; // how many there were when that began
    private static boolean watched; // whether the last tick counted the carriers that compute
    private static long unneededFor; // for how much longer fewer carriers computed than were added, than not
    private static long starvedFor; // how long one waited and no carrier could be added
    private static boolean starvationTold;
    private static boolean lackedMemory; // at the last tick

    // Set once, before the first tick.
    private static Scheduler scheduler;
    private static Thread thread;

    private SchedulerMonitor() {}

    /** {@code System.nanoTime} at the last tick, some milliseconds ago at most; 0 if no tick is recent. */
    public static long lastTick() {
        return lastTick;
    }

    /** True while a probe waits for long where no carrier polls external submissions. */
    public static boolean isLate() {
        return late;
    }

    /** Makes the monitor tick, if it sleeps. */
    public static void remind() {
        if (!pending) {
            pending = true;
        }
        if (asleep) {
            LockSupport.unpark(thread);
        }
    }

    /** The same on a platform thread: the fiber that it wakes is an external submission, and may find no carrier. */
    static void remindOutside() {
        if (!Thread.currentThread().isVirtual()) {
            remind();
        }
    }

    /** Asks for a carrier that polls external submissions, because some may wait. */
    static void requestPoll() {
        pollRequested = true;
    }

    /** True if {@link #requestPoll} was called since the last call of this method, which clears it. */
    static boolean takePollRequest() {
        boolean requested = pollRequested;
        if (requested) {
            pollRequested = false;
        }
        return requested;
    }

    /** Starts to tick for the scheduler. Called once. */
    static void tickFor(Scheduler chosen) {
        scheduler = chosen;
        thread = new Thread(null, SchedulerMonitor::tick, "magnetar-scheduler-monitor", 0, false);
        thread.setDaemon(true);
        thread.start();
    }

    private static void tick() {
        for (;;) {
            try {
                LockSupport.parkNanos(TICK_NANOS);
                look();
                NoMemory.awaited(lackedMemory);
                lackedMemory = false;
            } catch (OutOfMemoryError noRoom) {
                lackedMemory = true;
                NoMemory.tell();
                pause();
            } catch (Throwable failed) {
                pause();
            }
        }
    }

    /** A thread could not start: a later tick tries again. Each attempt without memory costs a full collection. */
    private static void pause() {
        pending = true;
        LockSupport.parkNanos(FAILED_NANOS);
    }

    private static void look() {
        long now = System.nanoTime() | 1;
        long elapsed = Math.min(now - ticked, LONGEST_TICK_NANOS);
        ticked = now;
        lastTick = now;
        boolean watches = Carriers.added() > 0;
        boolean reminded = pending || watches && now - probed >= PATIENCE_NANOS;
        boolean requested = pollRequested;
        boolean waits = mayOneWait(reminded);
        watchRequest(waits && requested && scheduler.handsOver(), elapsed);
        watchCarriers(waits, elapsed);
        if (!waits && !reminded && !watches) {
            sleep();
        }
    }

    /** True if a fiber may wait. Then a probe is on its way. */
    private static boolean mayOneWait(boolean reminded) {
        if (probe != null && probe.isAlive()) {
            requestPoll();
            return true;
        }
        if (reminded) {
            pending = false;
        }
        if (reminded ? isNeeded() : scheduler.handsOver() && scheduler.mayBeStranded()) {
            probe();
            return scheduler.handsOver(); // else only a probe that has not run tells that one waits
        }
        return false;
    }

    /** Notes for how long no carrier has read that it is asked to poll, while there were about as many submissions. */
    private static void watchRequest(boolean unread, long elapsed) {
        int now = unread ? scheduler.submissions() : 0;
        boolean same = unread && Math.abs(now - submissions) <= SAME_NUMBER;
        ignoredFor = same ? ignoredFor + elapsed : 0;
        submissions = same ? submissions : now;
    }

    private static void watchCarriers(boolean waits, long elapsed) {
        crowdedFor = waits ? crowdedFor + elapsed : 0;
        starvedFor = waits ? starvedFor : 0;
        late = late && waits;
        if (!waits && Carriers.added() == 0) {
            watched = false;
            return;
        }
        int computing = scheduler.computing(waits, watched ? elapsed : 0);
        watched = true;
        if (crowdedFor >= PATIENCE_NANOS) {
            crowdedFor = 0;
            late = !scheduler.handsOver() && !Fault.NO_FIBER_STEPS_ASIDE.isSeeded();
            starvedFor = Carriers.addOrSignal(needed(computing)) ? 0 : starvedFor + PATIENCE_NANOS;
            if (starvedFor >= STARVED_NANOS && !starvationTold) {
                new Thread(null, TELL_STARVATION, "magnetar-warning", 0, false).start(); // standard error may block
                starvationTold = true;
            }
        }
        unneededFor = Math.max(0, unneededFor + (computing < Carriers.added() ? elapsed : -elapsed));
        if (unneededFor > UNNEEDED_NANOS) {
            unneededFor = 0;
            Carriers.takeBack();
        }
    }

    /** How many carriers are needed beside those that there were at first. */
    private static int needed(int computing) {
        if (ignoredFor < IGNORED_NANOS) {
            return computing;
        }
        ignoredFor = 0;
        return Math.max(computing, Carriers.added() + 1);
    }

    /**
     * Checks twice: the monitor may have taken the core of a carrier, so that its queue does not move during
     * one check.
     */
    private static boolean isNeeded() {
        if (!scheduler.mayBeStranded()) {
            return false;
        }
        LockSupport.parkNanos(LOOK_AGAIN_NANOS);
        return scheduler.mayBeStranded();
    }

    private static void probe() {
        probed = ticked;
        probe = Thread.startVirtualThread(Carriers.NOTHING);
        requestPoll();
    }

    private static void sleep() {
        lastTick = 0;
        asleep = true;
        if (!pending) {
            do {
                LockSupport.parkNanos(SLEEP_NANOS);
            } while (Fault.MONITOR_SLEEPS_ON.isSeeded());
            pending = true;
        }
        asleep = false;
    }
}
