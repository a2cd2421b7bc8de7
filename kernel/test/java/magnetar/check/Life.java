package magnetar.check;

import static magnetar.check.Support.require;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import magnetar.kernel.channel.Buffer;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.channel.GoBody;
import magnetar.kernel.channel.Port;
import magnetar.kernel.channel.Select;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.park.Latch;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitInfo;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.time.Waits;

/** The life of fibers: reachability, fairness, and what they tell while they wait. */
final class Life {
    private Life() {}

    /** An abandoned weak fiber, parked on an unreachable channel, is collected; a strong one is not. */
    static void reachability() throws Exception {
        List<WeakReference<Thread>> weak = abandoned(Fibers.Hold.WEAK);
        List<WeakReference<Thread>> strong = abandoned(Fibers.Hold.STRONG);
        Support.until("the weak fibers are collected", () -> {
            System.gc();
            return weak.stream().allMatch(r -> r.get() == null);
        });
        require(strong.stream().noneMatch(r -> r.get() == null), "a strong fiber was collected");
        Support.until("the list forgets the collected ones", () -> Fibers.count() == strong.size());
        strong.forEach(r -> r.get().interrupt());
    }

    private static List<WeakReference<Thread>> abandoned(Fibers.Hold hold) {
        List<WeakReference<Thread>> threads = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            boolean selects = i % 2 == 0;
            AtomicReference<WeakReference<Thread>> self = new AtomicReference<>();
            Fibers.start("abandoned", hold, () -> {
                self.set(new WeakReference<>(Thread.currentThread()));
                try {
                    wait(selects);
                } catch (InterruptedException e) {
                    // this ends the strong fibers
                }
            });
            Support.until("it waits", () -> self.get() != null && self.get().get() != null && Support.parked(self.get().get()));
            threads.add(self.get());
        }
        return threads;
    }

    private static void wait(boolean selects) throws InterruptedException {
        Channel<Integer> a = Channel.rendezvous();
        if (selects) {
            Select.of(Select.take(a), Select.take(Channel.<Integer>rendezvous())).await();
        } else {
            a.receive();
        }
    }

    /**
     * The channel of a result names the fiber that will finish it, until it is closed. It does not keep that fiber
     * from being collected.
     */
    static void finishers() throws Exception {
        Channel<Object> gate = Channel.rendezvous();
        Channel<Object> out = Channel.of(Buffer.fixed(1));
        require(out.finisher() == null, "nobody is known before the start");
        Fiber fiber = Fibers.start("result", Fibers.Hold.WEAK, new GoBody(gate::receive, out));
        Support.until("it waits", () -> Support.parked(fiber.get()));
        require(out.finisher() == fiber, "the fiber that runs the body is known");
        gate.send("value");
        require("value".equals(out.receive()), "it has finished");
        require(out.receive() == null && out.finisher() == null, "nobody is known after the end");

        out.willBeFinishedBy(fiber);
        require(out.finisher() == null, "nobody is known of a closed channel");
        Channel<Object> direct = Channel.rendezvous();
        direct.willBeFinishedBy(fiber);
        require(direct.finisher() == null, "a channel of another kind records nobody");

        Channel<Object> kept = Channel.of(Buffer.fixed(1));
        Fibers.start("abandoned result", Fibers.Hold.WEAK, new GoBody(() -> Channel.rendezvous().receive(), kept));
        Support.until("the fiber is collected although its channel is reachable", () -> {
            System.gc();
            return kept.finisher() != null && kept.finisher().get() == null;
        });
    }

    /**
     * One fiber more than there are cores puts and takes in an endless loop without parking. A quiet fiber,
     * started and woken from outside, makes progress.
     */
    static void fairness() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        int loops = Runtime.getRuntime().availableProcessors() + 1;
        CountDownLatch flooding = new CountDownLatch(Math.min(loops, Runtime.getRuntime().availableProcessors()));
        for (int i = 0; i < loops; i++) {
            Channel<Integer> c = Channel.of(Buffer.fixed(10));
            Fibers.start("flood", Fibers.Hold.STRONG, () -> {
                for (int n = 0; !stop.get(); n++) {
                    c.trySend(n);
                    c.tryReceive();
                    if (n == 10_000) {
                        flooding.countDown();
                    }
                }
            });
        }
        require(flooding.await(Support.LIMIT_NANOS, TimeUnit.NANOSECONDS), "the loops run");
        Channel<Integer> quiet = Channel.rendezvous();
        CountDownLatch progress = new CountDownLatch(20);
        Fibers.start("quiet", Fibers.Hold.STRONG, () -> {
            try {
                while (quiet.receive() != null) {
                    progress.countDown();
                }
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        });
        long limit = Math.max(5 * Harness.SECOND, Support.LIMIT_NANOS / 2);
        long begin = System.nanoTime();
        boolean taken = true;
        for (int i = 0; i < 20 && taken; i++) {
            taken = Boolean.TRUE.equals(quiet.sendWithin(i, limit));
        }
        boolean made = progress.await(limit, TimeUnit.NANOSECONDS);
        stop.set(true);
        require(made, "among " + loops + " flooded loops the quiet fiber made " + (20 - progress.getCount()) + " of 20 steps");
        require(System.nanoTime() - begin < limit / 5 * 4, "the quiet fiber needed " + (System.nanoTime() - begin) / 1_000_000 + " ms");
        quiet.close();
    }

    /**
     * Pairs that answer each other for ever, more than there are cores. Fibers that a platform thread starts
     * and a timer wakes still run.
     */
    static void fairnessPairs() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        AtomicInteger running = new AtomicInteger();
        int pairs = 4 * Runtime.getRuntime().availableProcessors();
        Support.join(Support.fiber(Environment.REAL, () -> {
            for (int i = 0; i < pairs; i++) {
                answerEachOther(stop::get, running);
            }
        }));
        CountDownLatch turns = new CountDownLatch(10);
        Thread quiet = Support.fiber(Environment.REAL, () -> {
            for (int i = 0; i < 10; i++) {
                require(Channel.rendezvous().receiveWithin(1_000_000) == Port.PENDING, "nobody puts");
                turns.countDown();
            }
        });
        boolean made = turns.await(Integer.getInteger("magnetar.check.seconds", 10), TimeUnit.SECONDS);
        stop.set(true);
        require(made, "among " + running.get() + " pairs the quiet fiber made " + (10 - turns.getCount()) + " of 10 steps");
        Support.join(quiet);
        Support.until("all pairs have begun and ended", () -> running.get() == 2 * pairs && Fibers.count() == 0);
    }

    /**
     * Starts two fibers that answer each other until {@code stop} is true, which one of them checks before
     * each turn.
     */
    static void answerEachOther(BooleanSupplier stop) {
        answerEachOther(stop, new AtomicInteger());
    }

    /** The same, and counts the fibers as they begin. */
    static void answerEachOther(BooleanSupplier stop, AtomicInteger running) {
        Channel<Integer> to = Channel.rendezvous();
        Channel<Integer> fro = Channel.rendezvous();
        Fibers.start("asks", Fibers.Hold.STRONG, () -> converse(running, () -> {
            while (!stop.getAsBoolean()) {
                to.send(1);
                fro.receive();
            }
            to.close();
        }));
        Fibers.start("answers", Fibers.Hold.STRONG, () -> converse(running, () -> {
            while (to.receive() != null) {
                fro.send(2);
            }
        }));
    }

    private static void converse(AtomicInteger running, Support.Body body) {
        running.incrementAndGet();
        try {
            body.run();
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /**
     * A thread tells what it waits for while it waits, also after other code has parked it, and not while it
     * runs.
     */
    static void waits() throws Exception {
        Channel<Integer> c = Channel.rendezvous();
        ReentrantLock lock = new ReentrantLock();
        AtomicBoolean runs = new AtomicBoolean();
        AtomicBoolean mayGoOn = new AtomicBoolean();
        Thread t = Support.fiber(Environment.REAL, () -> {
            c.receive();
            runs.set(true);
            while (!mayGoOn.get()) {
                Thread.onSpinWait();
            }
            lock.lock();
            lock.unlock();
            c.receive();
        });
        Support.until("it waits", () -> Parked.waitOf(t) != null);
        long first = Parked.waitOf(t).id();
        c.send(1);
        Support.until("it runs", runs::get);
        require(Parked.waitOf(t) == null, "it runs, and says that it waits: " + Parked.waitOf(t));
        lock.lock();
        mayGoOn.set(true);
        Support.until("it waits for the lock", () -> lock.hasQueuedThreads() && t.getState() == Thread.State.WAITING);
        require(Parked.waitOf(t) == null, "the lock is none of the kernel's: " + Parked.waitOf(t));
        lock.unlock();
        WaitInfo[] second = new WaitInfo[1];
        Support.until("it waits again", () -> (second[0] = Parked.waitOf(t)) != null);
        require(second[0].on() == c && second[0].id() != first, "the second wait, after " + first + ", is " + second[0]);
        c.send(2);
        Support.join(t);
    }

    /**
     * A reader of a thread that waits alternately for two objects sees one whole wait, never a mix of two.
     */
    static void waitsInTurn() throws Exception {
        Channel<Integer> in = Channel.rendezvous();
        Channel<Integer> out = Channel.rendezvous();
        AtomicBoolean over = new AtomicBoolean();
        Thread t = Support.fiber(Environment.REAL, () -> {
            while (in.receive() != null) {
                out.send(1);
                Select.over(List.of(in)).await();
            }
            over.set(true);
        });
        Thread other = Support.fiber(Environment.REAL, () -> {
            for (int i = 0; i < 100_000; i++) {
                in.send(1);
                out.receive();
                in.send(2);
            }
            in.close();
        });
        int seen = 0;
        while (!over.get() && t.isAlive()) {
            WaitInfo w = Parked.waitOf(t);
            seen += w == null ? 0 : 1;
            require(w == null || switch (w.reason()) {
                case CHANNEL_TAKE -> w.on() == in;
                case CHANNEL_PUT -> w.on() == out;
                default -> w.on() instanceof Select;
            }, "it never waited for this: " + w);
        }
        Support.join(t);
        Support.join(other);
        require(seen > 0, "it was never seen to wait");
    }

    /** An object that was waited for once is not kept when the wait is over. */
    static void waitedForOnce() throws Exception {
        AtomicReference<WeakReference<Object>> once = new AtomicReference<>();
        AtomicBoolean over = new AtomicBoolean();
        Thread t = Support.fiber(Environment.REAL, () -> {
            once.set(new WeakReference<>(waitedFor(new Object())));
            while (!over.get()) {
                Thread.onSpinWait();
            }
        });
        Support.until("it is collected", () -> {
            System.gc();
            return once.get() != null && once.get().get() == null;
        });
        over.set(true);
        Support.join(t);
    }

    private static Object waitedFor(Object on) throws InterruptedException {
        Waits.await(new Latch(), WaitReason.CALLBACK, on, 1_000_000);
        return on;
    }

    /** Each of many parked fibers tells why it waits, on what and since when, through its thread alone. */
    static void blockers(int fibers) throws Exception {
        Channel<Integer> c = Channel.rendezvous();
        long before = System.nanoTime();
        for (int i = 0; i < fibers; i++) {
            Fibers.start("waits", Fibers.Hold.STRONG, () -> {
                try {
                    c.receive();
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            });
        }
        Support.until("all wait", 60, () -> c.info().takers().size() == fibers);
        Support.until("all say what they wait for", 60, () -> described(c, before) == fibers);
        c.close();
        Support.until("all end", 60, () -> Fibers.count() == 0);
    }

    private static int described(Channel<?> c, long before) {
        int n = 0;
        for (Thread t : Fibers.threads()) {
            if (Parked.waitOf(t) instanceof WaitInfo w && w.reason() == WaitReason.CHANNEL_TAKE && w.on() == c
                    && w.since() - before >= 0 && w.since() - System.nanoTime() <= 0) {
                n++;
            }
        }
        return n;
    }
}
