package magnetar.check;

import static magnetar.check.Support.require;

import java.io.IOException;
import java.io.InputStream;
import java.lang.invoke.MethodHandles;
import java.util.ArrayList;
import java.util.IntSummaryStatistics;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.Send;
import magnetar.kernel.sched.Peek;

/**
 * Wake-up by hand-off: which threads it serves, that no fiber waits for long, and that no wake-up is lost.
 * Main skips the checks that need it where it is off.
 */
final class HandOffs {
    private HandOffs() {}

    /** A fiber that wakes another one and then computes for a second ends after the woken fiber. */
    static void bound() throws Exception {
        bound(1);
    }

    private static void bound(int seconds) throws Exception {
        for (int i = 0; i < 2; i++) {
            Channel<Integer> c = Channel.rendezvous();
            AtomicBoolean done = new AtomicBoolean();
            AtomicBoolean first = new AtomicBoolean();
            Thread woken = Support.fiber(Environment.REAL, () -> {
                c.receive();
                done.set(true);
            });
            Support.until("it waits", () -> Support.parked(woken));
            Thread waker = Support.fiber(Environment.REAL, () -> {
                c.send(1);
                for (long end = System.nanoTime() + seconds * Harness.SECOND; System.nanoTime() < end && !done.get(); ) {
                    Thread.onSpinWait();
                }
                first.set(done.get());
            });
            Support.join(waker);
            Support.join(woken);
            require(first.get(), "round " + i + ": the woken fiber waited until its waker had computed for " + seconds + " s");
        }
    }

    /** Between two parks a fiber hands over one plainly parked virtual thread, and no other thread. */
    static void targets() throws Exception {
        Thread plain = sleeper(Thread.ofVirtual(), LockSupport::park);
        Thread second = sleeper(Thread.ofVirtual(), LockSupport::park);
        Thread third = sleeper(Thread.ofVirtual(), LockSupport::park);
        Thread timed = sleeper(Thread.ofVirtual(), () -> LockSupport.parkNanos(3600 * Harness.SECOND));
        Thread pinned = sleeper(Thread.ofVirtual(), () -> pinned(LockSupport::park));
        Thread platform = sleeper(Thread.ofPlatform().daemon(), LockSupport::park);
        require(!Peek.handOver(plain, Fiber.current()), "a platform thread hands nobody over");
        Support.join(Support.fiber(Environment.REAL, () -> {
            require(!Peek.handOver(timed, Fiber.current()), "one that is parked with a time is not handed over");
            require(!Peek.handOver(pinned, Fiber.current()), "one that is pinned is not handed over");
            require(!Peek.handOver(platform, Fiber.current()), "a platform thread is not handed over");
            require(!Peek.handOver(Thread.currentThread(), Fiber.current()), "one that runs is not handed over");
            require(Peek.handOver(plain, Fiber.current()), "one that is plainly parked is handed over");
            require(Peek.wakeOrdinarily(second, Fiber.current()), "a second one is woken, and not handed over");
            Fiber.current().refill();
            require(Peek.handOver(third, Fiber.current()), "after a park another is handed over");
        }));
        for (Thread t : List.of(plain, second, third)) {
            Support.join(t);
        }
        for (Thread t : List.of(timed, pinned, platform)) {
            Environment.REAL.unpark(t, Fiber.current());
            Support.join(t);
        }
    }

    private static Thread sleeper(Thread.Builder kind, Runnable park) {
        Thread t = kind.start(park);
        Support.until("it sleeps", () -> t.getState() == Thread.State.WAITING || t.getState() == Thread.State.TIMED_WAITING);
        return t;
    }

    /** The code that the initializer of the next class of {@link Initialized} runs. */
    static final ThreadLocal<Runnable> BODY = new ThreadLocal<>();

    /** A class that is loaded again for each use. A virtual thread is pinned in its initializer. */
    static final class Initialized {
        static {
            BODY.get().run();
        }
    }

    private static final byte[] INITIALIZED = bytes();

    private static byte[] bytes() {
        try (InputStream in = HandOffs.class.getResourceAsStream("HandOffs$Initialized.class")) {
            return in.readAllBytes();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static void pinned(Runnable body) {
        BODY.set(body);
        try {
            MethodHandles.lookup().defineHiddenClass(INITIALIZED, true);
        } catch (IllegalAccessException e) {
            throw new AssertionError(e);
        }
    }

    /**
     * Two threads wake a thread that parks plainly, with a time limit and pinned in turn, as often as they
     * like. No wake-up is lost.
     */
    static void lost() throws Exception {
        Simulated.simulate(true);
        Environment noisy = new Support.Noisy(2, 20_000);
        int rounds = 3_000;
        AtomicInteger turn = new AtomicInteger();
        AtomicInteger seen = new AtomicInteger();
        Thread sleeper = Support.fiber(noisy, () -> {
            for (int i = 1; i <= rounds; i++) {
                int round = i;
                Runnable wait = () -> {
                    while (turn.get() < round) {
                        if (round % 3 == 1) {
                            LockSupport.parkNanos(3600 * Harness.SECOND);
                        } else {
                            LockSupport.park();
                        }
                    }
                };
                if (i % 3 == 2) {
                    pinned(wait);
                } else {
                    wait.run();
                }
                seen.set(i);
            }
        });
        Thread also = Support.fiber(noisy, () -> {
            while (seen.get() < rounds && Support.failure == null) {
                Fiber.current().refill();
                noisy.unpark(sleeper, Fiber.current());
                    LockSupport.parkNanos(1); // a yield would not let the waker run first
            }
        });
        Thread waker = Support.fiber(noisy, () -> {
            for (int i = 1; i <= rounds; i++) {
                turn.set(i);
                Fiber.current().refill();
                noisy.unpark(sleeper, Fiber.current());
                int round = i;
                Support.until("round " + i + ": the thread that was woken goes on", 3, () -> seen.get() >= round);
            }
        });
        Support.join(waker);
        Support.join(sleeper);
        Support.join(also);
        Simulated.simulate(false);
    }

    /** Tokens go round a ring of processes, and all arrive. */
    static void ring(int processes, int rounds) throws Exception {
        int tokens = 4;
        CountDownLatch home = new CountDownLatch(tokens);
        List<Pid> ring = new ArrayList<>();
        for (int i = 0; i < processes; i++) {
            int n = i;
            ring.add(Harness.spawn(() -> {
                for (int left = rounds * tokens; left > 0; left--) {
                    int hops = (Integer) Harness.next();
                    if (hops == 0) {
                        home.countDown();
                    } else {
                        Send.send(ring.get((n + 1) % processes), hops - 1);
                    }
                }
            }));
        }
        for (int t = 0; t < tokens; t++) {
            Send.send(ring.getFirst(), processes * rounds - 1);
        }
        Support.until("all tokens are home; missing: " + tokens, () -> home.getCount() == 0);
        for (Pid pid : ring) {
            Harness.finished(pid);
        }
    }

    /**
     * On two carriers: a fiber computes for five seconds, and two others answer each other. A fiber that the
     * first one woke runs before that one ends.
     */
    static void crowded() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        Life.answerEachOther(stop::get);
        try {
            bound(5);
        } finally {
            stop.set(true);
        }
        Support.until("the two have ended", () -> Fibers.count() == 0);
    }

    /**
     * On one carrier two fibers answer each other while 600 external submissions wait, more than two batches.
     * They are moved to the carrier's queue together: from the first to the last that begins, the two fibers
     * have ten time slices at most.
     */
    static void together() throws Exception {
        for (int i = 0; i < 5; i++) {
            waitTogether(600);
        }
    }

    private static void waitTogether(int many) throws Exception {
        AtomicInteger turns = new AtomicInteger();
        CountDownLatch begun = new CountDownLatch(many);
        AtomicIntegerArray seen = new AtomicIntegerArray(many);
        List<Thread> outside = IntStream.range(0, many)
                .mapToObj(i -> Thread.ofVirtual().unstarted(() -> {
                    seen.set(i, turns.get());
                    begun.countDown();
                }))
                .toList();
        AtomicBoolean busy = new AtomicBoolean();
        AtomicBoolean started = new AtomicBoolean();
        Life.answerEachOther(() -> {
            if (turns.incrementAndGet() == 1_000) {
                busy.set(true);
                while (!started.get()) {
                    Thread.onSpinWait();
                }
            }
            return begun.getCount() == 0;
        });
        Support.until("the two have had a thousand turns", busy::get);
        outside.forEach(Thread::start);
        require(begun.getCount() == many, "somebody began while the one carrier was busy");
        started.set(true);
        Support.until("all have begun and the two have ended", () -> begun.getCount() == 0 && Fibers.count() == 0);
        IntSummaryStatistics s = IntStream.range(0, many).map(seen::get).summaryStatistics();
        require(s.getMax() - s.getMin() <= 10, "the first of " + many + " began at turn " + s.getMin() + ", the last at turn " + s.getMax());
    }

    /**
     * On one carrier two fibers answer each other while a platform thread starts a thread, fifty-one times.
     * Most times it runs before the two have had two hundred time slices. The next tick is thousands of time
     * slices away.
     */
    static void outside() throws Exception {
        AtomicInteger turns = new AtomicInteger();
        AtomicBoolean stop = new AtomicBoolean();
        Life.answerEachOther(() -> {
            turns.incrementAndGet();
            return stop.get();
        });
        Support.until("the two answer each other", () -> turns.get() > 100_000);
        List<Integer> waited = new ArrayList<>();
        for (int i = 0; i < 51; i++) {
            AtomicInteger seen = new AtomicInteger();
            int before = turns.get();
            Support.join(Thread.ofVirtual().start(() -> seen.set(turns.get())));
            waited.add(seen.get() - before);
        }
        stop.set(true);
        Support.until("the two have ended", () -> Fibers.count() == 0);
        waited.sort(null);
        require(waited.get(25) <= 200, "whoever came from outside waited for " + waited.get(25) + " turns of the two, half of them for more");
    }

    /**
     * A hundred fibers call one process on one carrier, where no other carrier can steal them. Once each has
     * had an answer, the first one gets ten thousand more while each gets a thousand more.
     */
    static void fair() throws Exception {
        Pid answers = Harness.spawn(() -> {
            for (Object from = Harness.next(); !from.equals("stop"); from = Harness.next()) {
                Send.send(from, "answer");
            }
        });
        AtomicIntegerArray more = new AtomicIntegerArray(100);
        CountDownLatch first = new CountDownLatch(more.length());
        AtomicBoolean enough = new AtomicBoolean();
        List<Pid> askers = new ArrayList<>();
        for (int i = 0; i < more.length(); i++) {
            int n = i;
            askers.add(Harness.spawn(() -> {
                ask(answers);
                first.countDown();
                while (!enough.get()) {
                    ask(answers);
                    if (first.getCount() == 0 && more.incrementAndGet(n) == 10_000) {
                        enough.set(true);
                    }
                }
            }));
        }
        for (Pid pid : askers) {
            Harness.finished(pid);
        }
        Send.send(answers, "stop");
        Harness.finished(answers);
        int least = IntStream.range(0, more.length()).map(more::get).min().getAsInt();
        require(least >= 1_000, "of a hundred that ask one, the first had 10,000 answers when the last had " + least);
    }

    private static void ask(Pid whom) throws Exception {
        Send.send(whom, Harness.me().pid());
        Harness.next();
    }
}
