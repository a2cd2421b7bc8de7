package magnetar.kernel.park;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ForkJoinWorkerThread;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;

/**
 * Lets all carriers but one rest while fibers do as much that way: where they do little but wake each other, each fiber that goes from core to core takes its
 * channels with it, and two carriers do less than one (select over 10: 440 ns, 1,100 where the cores share no cache; by one carrier 330).
 *
 * <p>It is found out by trial, in stages that the {@link Ticker} ends: for some ticks all carriers work, for as many one does, and then, until the next trial, all or
 * the one, whichever did more. What fibers do is counted in kernel operations, when a fiber that another has woken gets its next turn ({@link HandOff}). No trial is made while
 * they do few, so that programs whose fibers compute never meet it. Meant for few carriers, and measured on two: on many, the best number may lie between one and all.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A carrier rests only when it comes to a fiber that was woken by another while somebody else is the soloist, and with nothing in its queue: it has moved all outside,
 *       where the soloist takes it in ({@link HandOff}).
 *   <li>The soloist is let down at the first tick, but that at which it begins, at which fibers have done few operations, or less than half of what the trial had promised, since the
 *       tick before: its fiber computes, or blocks, or there is nothing to do. Also when another carrier is seen at work at two ticks in a row, which would have a queue that nobody else
 *       comes to; not if that one is blocked and the pool has made another in its place ({@link Ticker}, invariant 4, finds that).
 *   <li>Who rests is in {@code RESTING} before it looks whether the soloist is one still; {@code soloist} is taken back before those in {@code RESTING} are woken.
 *   <li>While there is a soloist the ticker ticks.
 *   <li>Each carrier looks outside after some {@value #LOOK} operations: nobody is signalled for those who come there while others rest.
 * </ol>
 *
 * <p>Refused: to lower the pool's own parallelism, which signals fewer carriers and lets none rest that finds work; to count turns instead of operations, since a fiber that finds
 * more done each time needs fewer of them.
 */
final class Carriers {
    private static final int TRIAL_TICKS = 5; // the first of a stage is not counted
    private static final int LEAST_SETTLED_TICKS = 250;
    private static final int MOST_SETTLED_TICKS = 1000;
    private static final int LOOK = 64; // operations
    private static final double FEW = 250; // operations per ms and carrier
    private static final double WORTH = 0.9; // who comes back takes fibers along, so all have to be better by more than chance

    private static final int COUNTERS = 64;
    private static final int APART = 16; // longs, so that no two carriers write to one cache line

    private enum Stage {
        ALL_TRIED,
        ONE_TRIED,
        SETTLED
    }

    // The first is written by any thread, each other by one carrier, or by those whose numbers differ by 64, which may lose some; read by the ticker.
    private static final AtomicLongArray OPERATIONS = new AtomicLongArray(APART * (COUNTERS + 1));

    // Entered by whoever rests, read by the ticker.
    static final Set<ForkJoinWorkerThread> RESTING = ConcurrentHashMap.newKeySet();

    // Set by the ticker, null while all carriers work; the first carrier that comes by enters itself.
    private static volatile AtomicReference<Thread> soloist;

    // Written by the ticker.
    private static volatile Stage stage = Stage.ALL_TRIED;

    // Only accessed by the ticker.
    private static boolean wakesAll;
    private static int ticks; // of this stage
    private static double sum; // of the rates at those that count
    private static double rateOfAll; // in operations per ms, in the last trial
    private static double rateOfOne;
    private static boolean strangers; // somebody else was at work at the last tick
    private static boolean oneWins;
    private static int settledTicks = LEAST_SETTLED_TICKS;
    private static long operationsBefore;
    private static long nanosBefore;

    private Carriers() {}

    /** The number of those that rest. */
    static int resting() {
        return RESTING.size();
    }

    /** True while one works because it did as much in the last trial. */
    static boolean isSettledOnOne() {
        return soloist != null && stage == Stage.SETTLED;
    }

    /** True unless the current thread, a carrier, is to rest. */
    static boolean mayWork() {
        AtomicReference<Thread> one = soloist;
        return one == null || isOrBecomes(one, Thread.currentThread());
    }

    private static boolean isOrBecomes(AtomicReference<Thread> one, Thread me) {
        return one.get() == me || one.get() == null && one.compareAndSet(null, me);
    }

    /** Lets the current thread, a carrier, rest until it may work. */
    static void rest() {
        ForkJoinWorkerThread me = (ForkJoinWorkerThread) Thread.currentThread();
        RESTING.add(me);
        while (!mayWork()) {
            LockSupport.park(RESTING);
        }
        RESTING.remove(me);
    }

    /** The current thread, a carrier, is about to run the fiber, whose last turn is counted. True now and then: the carrier is to look outside. */
    static boolean count(Fiber fiber) {
        int i = APART * (1 + ((ForkJoinWorkerThread) Thread.currentThread()).getPoolIndex() % COUNTERS);
        long before = OPERATIONS.getPlain(i);
        long now = before + fiber.operations();
        OPERATIONS.setOpaque(i, now);
        return before / LOOK != now / LOOK;
    }

    /** A fiber has done so many operations, and goes on. */
    static void count(int operations) {
        OPERATIONS.getAndAdd(0, operations);
    }

    /** A tick. */
    static void tick() {
        ForkJoinPool pool = HandOff.pool();
        if (pool != null && pool.getParallelism() > 1) {
            tick(pool);
        } else {
            letAllWork(); // a program may lower it
        }
    }

    private static void tick(ForkJoinPool pool) {
        double rate = rate();
        if (soloist == null && stage == Stage.ALL_TRIED && rate < FEW * pool.getParallelism()) {
            begin(Stage.ALL_TRIED);
        } else if (soloist != null && fails(rate, pool)) {
            giveUp(rate);
        } else {
            sum += ticks > 0 ? rate : 0;
            if (++ticks == (stage == Stage.SETTLED ? settledTicks : TRIAL_TICKS)) {
                endStage();
            }
        }
    }

    private static double rate() {
        long nanos = System.nanoTime();
        long operations = 0;
        for (int i = 0; i <= COUNTERS; i++) {
            operations += OPERATIONS.getOpaque(i * APART);
        }
        double rate = 1e6 * (operations - operationsBefore) / (nanos - nanosBefore);
        operationsBefore = operations;
        nanosBefore = nanos;
        return rate;
    }

    /** False at the first tick of all, which begins while the others still work. */
    private static boolean fails(double rate, ForkJoinPool pool) {
        return (stage == Stage.SETTLED || ticks > 0)
                && (rate < FEW || stage == Stage.SETTLED && rate < rateOfOne / 2 || strangersAreSeenAgain(pool));
    }

    private static boolean strangersAreSeenAgain(ForkJoinPool pool) {
        boolean before = strangers;
        strangers = pool.getActiveThreadCount() - 1 > RESTING.size();
        return before && strangers;
    }

    /** Unless nothing is left to do no other trial follows at once: the carriers would be at rest too often. */
    private static void giveUp(double rate) {
        boolean idle = rate < FEW && !HandOff.mayBeStranded();
        letAllWork();
        begin(idle ? Stage.ALL_TRIED : Stage.SETTLED);
    }

    private static void endStage() {
        double mean = sum / (ticks - 1);
        switch (stage) {
            case ALL_TRIED -> {
                rateOfAll = mean;
                strangers = false;
                soloist = new AtomicReference<>();
                begin(Stage.ONE_TRIED);
            }
            case ONE_TRIED -> {
                rateOfOne = mean;
                settle(rateOfOne >= WORTH * rateOfAll);
            }
            case SETTLED -> {
                letAllWork();
                Thread.startVirtualThread(Ticker.NOTHING); // an ordinary submission, which signals a carrier
                begin(Stage.ALL_TRIED);
            }
        }
    }

    private static void settle(boolean one) {
        settledTicks = one == oneWins ? Math.min(2 * settledTicks, MOST_SETTLED_TICKS) : LEAST_SETTLED_TICKS;
        oneWins = one;
        if (!one) {
            letAllWork();
        }
        begin(Stage.SETTLED);
    }

    private static void begin(Stage next) {
        stage = next;
        ticks = 0;
        sum = 0;
    }

    /** The ticker sleeps from now on. */
    static void sleep() {
        letAllWork();
        begin(Stage.ALL_TRIED);
    }

    private static void letAllWork() {
        if (soloist != null || wakesAll) {
            wakesAll = true; // until all are woken: memory may end before
            soloist = null;
            for (ForkJoinWorkerThread t : RESTING) {
                LockSupport.unpark(t);
            }
            wakesAll = false;
        }
    }
}
