package magnetar.check;

import static magnetar.check.Support.require;

import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import jdk.management.VirtualThreadSchedulerMXBean;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.channel.Port;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.sched.Carriers;

/** Fibers that compute: carriers are added for them and taken back, and only for them. */
final class Computations {
    private static final int LOOPS = 4;
    private static final int MOST_ADDED = 8; // by default
    private static final int QUIET = 100;
    private static final VirtualThreadSchedulerMXBean SCHEDULER = ManagementFactory.getPlatformMXBean(VirtualThreadSchedulerMXBean.class);

    private Computations() {}

    /**
     * Endless loops, as many as carriers may be added. Fibers that wait for timers go on, and no carrier is taken back that
     * is needed; then all are.
     */
    static void computing() throws Exception {
        int before = SCHEDULER.getParallelism();
        int needed = MOST_ADDED + 1 - before;
        AtomicBoolean stop = new AtomicBoolean();
        compute(MOST_ADDED, stop);
        boolean made = tick(20).await(seconds(), TimeUnit.SECONDS);
        int added = Carriers.added();
        AtomicInteger least = new AtomicInteger(added);
        CountDownLatch later = tick(150);
        try {
            require(made, "beside " + MOST_ADDED + " endless loops " + QUIET + " fibers did not make 20 steps each");
            require(added >= needed, "only " + added + " carriers were added");
            Support.until("the fibers go on", 4 * seconds(), () -> {
                least.accumulateAndGet(Carriers.added(), Math::min);
                return later.getCount() == 0;
            });
            require(least.get() >= needed, "only " + least + " carriers stayed added");
        } finally {
            stop.set(true);
        }
        Support.until("the carriers are taken back", 30, () -> Carriers.added() == 0);
        require(SCHEDULER.getParallelism() == before, "the parallelism was " + before + ", and is " + SCHEDULER.getParallelism());
    }

    /** Carriers that were added are taken back while fibers answer each other on all carriers. */
    static void busyAfterwards() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        AtomicBoolean end = new AtomicBoolean();
        for (int i = 0; i < QUIET; i++) {
            Life.answerEachOther(end::get);
        }
        compute(LOOPS, stop);
        try {
            Support.until("a carrier is added", () -> Carriers.added() > 0);
            stop.set(true);
            Support.until("the carriers are taken back", 4 * seconds(), () -> Carriers.added() == 0);
        } finally {
            stop.set(true);
            end.set(true);
        }
    }

    /** Fibers that answer each other go on beside endless loops, also those that were queued at the carrier of a loop. */
    static void pairs() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        AtomicLong[] turns = new AtomicLong[QUIET];
        for (int i = 0; i < QUIET; i++) {
            AtomicLong mine = turns[i] = new AtomicLong();
            Life.answerEachOther(() -> {
                mine.incrementAndGet();
                return stop.get();
            });
        }
        compute(LOOPS, stop);
        long[] before = new long[QUIET];
        Arrays.setAll(before, i -> turns[i].get());
        try {
            for (int i = 0; i < QUIET; i++) {
                int n = i;
                Support.until("pair " + i + " goes on", () -> turns[n].get() > before[n] + 10);
            }
        } finally {
            stop.set(true);
        }
        Support.until("all have ended", () -> Fibers.count() == 0);
    }

    /** The program sets the parallelism while carriers are added. Its setting stays. */
    static void host() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        compute(LOOPS, stop);
        boolean made = tick(5).await(seconds(), TimeUnit.SECONDS);
        SCHEDULER.setParallelism(23);
        stop.set(true);
        require(made, "beside " + LOOPS + " endless loops " + QUIET + " fibers did not make 5 steps each");
        Support.until("the program's setting holds", 30, () -> Carriers.added() == 0 && SCHEDULER.getParallelism() == 23);
    }

    /** Where none may be added, a fiber that waits for a timer goes on when a loop ends. */
    static void off() throws Exception {
        AtomicInteger ended = new AtomicInteger();
        AtomicInteger endedBefore = new AtomicInteger();
        for (int i = 0; i < LOOPS; i++) {
            Fibers.start("computes", Fibers.Hold.STRONG, () -> {
                count(300_000_000L);
                ended.incrementAndGet();
            });
        }
        Support.join(Support.fiber(Environment.REAL, () -> {
            Channel.rendezvous().receiveWithin(1_000_000);
            endedBefore.set(ended.get());
        }));
        require(endedBefore.get() > 0, "a fiber ran while all carriers computed, and none may be added");
    }

    /**
     * Fibers that only yield. A carrier submits such a fiber again and takes the next one from the same submission queue, and so
     * comes to no other queue. Fibers that come from outside go on.
     */
    static void yielding() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        AtomicInteger running = new AtomicInteger();
        Support.fiber(Environment.REAL, () -> yieldWithChildren(3, running, stop));
        Support.until("they yield", () -> running.get() >= 40);
        try {
            require(tick(5).await(seconds(), TimeUnit.SECONDS), "beside fibers that yield " + QUIET + " fibers did not make 5 steps each");
        } finally {
            stop.set(true);
        }
        Support.until("the carriers are taken back", 30, () -> Carriers.added() == 0);
    }

    private static void yieldWithChildren(int levels, AtomicInteger running, AtomicBoolean stop) {
        for (int i = 0; i < 3 && levels > 0; i++) {
            Support.fiber(Environment.REAL, () -> yieldWithChildren(levels - 1, running, stop));
        }
        running.incrementAndGet();
        while (!stop.get()) {
            Thread.yield();
        }
    }

    private static long count(long turns) {
        long x = 1;
        for (long i = 0; i < turns; i++) {
            x = x * 6364136223846793005L + 1442695040888963407L;
        }
        return x;
    }

    /** A million fibers start while others answer each other. One that waits ten times for a timer ends before the last of them. */
    static void backlog() throws Exception {
        int many = 1_000_000;
        AtomicBoolean stop = new AtomicBoolean();
        AtomicLong left = new AtomicLong(many);
        Life.answerEachOther(stop::get);
        AtomicLong leftAtLast = new AtomicLong();
        for (int i = 0; i < 1_000; i++) {
            Fibers.start("spawns", Fibers.Hold.STRONG, () -> {
                for (int n = 0; n < many / 1_000; n++) {
                    Fibers.start("spawned", Fibers.Hold.STRONG, left::decrementAndGet);
                }
            });
        }
        Thread quiet = Support.fiber(Environment.REAL, () -> {
            for (int i = 0; i < 10; i++) {
                require(Channel.rendezvous().receiveWithin(1_000_000) == Port.PENDING, "nobody puts");
            }
            leftAtLast.set(left.get());
        });
        Support.until("all have ended", 4 * seconds(), () -> left.get() == 0);
        Support.join(quiet);
        stop.set(true);
        Support.until("the two have ended", () -> Fibers.count() == 0);
        require(leftAtLast.get() > 0, "a fiber that waited ten times for a timer ended after a million others");
    }

    private static void compute(int loops, AtomicBoolean stop) throws Exception {
        CountDownLatch running = new CountDownLatch(Math.min(loops, SCHEDULER.getParallelism()));
        for (int i = 0; i < loops; i++) {
            Fibers.start("computes", Fibers.Hold.STRONG, () -> {
                running.countDown();
                while (!stop.get()) {
                    Thread.onSpinWait();
                }
            });
        }
        require(running.await(seconds(), TimeUnit.SECONDS), "the loops run");
    }

    private static CountDownLatch tick(int steps) {
        CountDownLatch ticks = new CountDownLatch(QUIET * steps);
        for (int i = 0; i < QUIET; i++) {
            Support.fiber(Environment.REAL, () -> {
                for (int n = 0; n < steps; n++) {
                    require(Channel.rendezvous().receiveWithin(10_000_000) == Port.PENDING, "nobody puts");
                    ticks.countDown();
                }
            });
        }
        return ticks;
    }

    private static int seconds() {
        return Integer.getInteger("magnetar.check.seconds", 10);
    }
}
