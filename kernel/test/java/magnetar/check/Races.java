package magnetar.check;

import static magnetar.check.Support.require;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.channel.Buffer;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.channel.Port;
import magnetar.kernel.channel.Select;
import magnetar.kernel.fiber.Cancelled;
import magnetar.kernel.fiber.Cause;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;

/** Races that are forced to happen, each with a known result. */
final class Races {
    private Races() {}

    /**
     * An environment whose park returns at once, which its contract allows. So the waiter checks for its
     * result all the time.
     */
    private static class Awake extends Environment {
        @Override
        public void park(Object waiter) {
            Thread.onSpinWait();
        }

        @Override
        public void unpark(Thread thread, Fiber fiber) {}
    }

    /** An awake environment that also sleeps at switch points. */
    static final class Dozing extends Awake {
        @Override
        protected void reachSwitchPoint() {
            Support.doze();
        }
    }

    /** What an operation hands over is visible when it returns, although the waiter never sleeps. */
    static void publication() throws Exception {
        Simulated.simulate(true);
        Environment awake = new Dozing();
        AtomicReference<Parked> waiting = new AtomicReference<>();
        Claims.Meeting meeting = new Claims.Meeting();
        Thread event = Support.platform(awake, () -> {
            for (int i = 0; meeting.more(i); i++) {
                meeting.await();
                waiting.get().claim();
                waiting.get().complete(null, i);
                meeting.await();
            }
        });
        Support.join(Support.platform(awake, () -> {
            for (int i = 0; meeting.more(i); i++) {
                Parked p = new Parked(Fiber.current(), WaitReason.CHANNEL_TAKE, null);
                waiting.set(p);
                meeting.await();
                p.await();
                require(Integer.valueOf(i).equals(p.result()), "round " + i + ": ready, and the result is " + p.result());
                meeting.await();
            }
        }));
        Support.join(event);
        Simulated.simulate(false);
    }

    /** A waiter that is woken has been completed. None sleeps on after its result was published. */
    static void wakeUp() throws Exception {
        Simulated.simulate(true);
        Environment slow = new Support.Noisy(1, 100_000);
        Channel<Integer> c = Channel.rendezvous();
        Thread taker = Support.fiber(slow, () -> {
            for (int i = 0; i < 300; i++) {
                c.receive();
            }
        });
        Thread putter = Support.fiber(slow, () -> {
            for (int i = 0; i < 300; i++) {
                c.send(i);
            }
        });
        Support.join(taker);
        Support.join(putter);
        Simulated.simulate(false);
    }

    /**
     * An environment whose thread stops at its first switch point, before the lock of its operation, until it
     * is released.
     */
    private static final class Held extends Environment {
        private final CountDownLatch go = new CountDownLatch(1);
        private final AtomicInteger reached = new AtomicInteger();

        @Override
        protected void reachSwitchPoint() {
            if (reached.getAndIncrement() == 0) {
                try {
                    go.await();
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            }
        }
    }

    /** T1 checks without the lock and sees no waiter; T2 begins to wait. T1 meets T2 under the lock. */
    static void lookAgain() throws Exception {
        Simulated.simulate(true);
        Channel<Integer> c = Channel.rendezvous();
        comeBetween(() -> require(c.receive() == 1, "another value was taken"), () -> c.send(1));
        comeBetween(() -> c.send(2), () -> require(c.receive() == 2, "another value was taken"));
        Simulated.simulate(false);
    }

    /**
     * Runs two operations. The second begins and waits when the first has made its check and is about to take
     * the lock.
     */
    private static void comeBetween(Support.Body first, Support.Body second) throws Exception {
        Held held = new Held();
        Thread one = Support.fiber(held, first);
        Support.until("the first operation is about to take the lock", () -> held.reached.get() > 0);
        Thread two = Support.fiber(Environment.REAL, second);
        Support.until("the second operation waits", () -> Support.parked(two));
        held.go.countDown();
        Support.join(one);
        Support.join(two);
    }

    /**
     * Two takers race to be the first of an unused channel; the second makes its queue. Meanwhile two values
     * are put, and in each second round the first taker is interrupted. Then two putters do the same.
     */
    static void firstWaiters() throws Exception {
        Simulated.simulate(true);
        Environment noisy = new Support.Noisy(4, 3_000);
        for (int round = 0; round < 1_000; round++) {
            Channel<Integer> c = round % 3 == 0 ? Channel.of(Buffer.fixed(1)) : Channel.rendezvous();
            twoTakers(noisy, c, round % 2 == 0);
            meet(() -> require(c.receive() + c.receive() == 3, "other values were put"), // these meet two putters
                    Support.fiber(noisy, () -> c.send(1)), Support.fiber(noisy, () -> c.send(2)));
            require(Support.nodes(c) == 0, "a node was left in round " + round);
        }
        Simulated.simulate(false);
    }

    private static void twoTakers(Environment noisy, Channel<Integer> c, boolean interrupted) throws Exception {
        AtomicInteger taken = new AtomicInteger();
        Support.Body take = () -> taken.addAndGet(takeUnlessInterrupted(c));
        Thread first = Support.fiber(noisy, take);
        Thread second = Support.fiber(noisy, take);
        if (interrupted) {
            Support.until("a taker waits", () -> !c.info().takers().isEmpty());
            first.interrupt();
        }
        meet(() -> {
            c.send(1);
            while (first.isAlive() || second.isAlive()) {
                c.sendWithin(2, 10_000);
            }
        }, first, second);
        require(taken.get() == 3 || interrupted && taken.get() == 1, "the takers took " + taken);
        c.tryReceive(); // what was put too much
    }

    private static int takeUnlessInterrupted(Channel<Integer> c) {
        try {
            return c.receive();
        } catch (InterruptedException e) {
            return 0;
        }
    }

    private static void meet(Support.Body body, Thread first, Thread second) throws Exception {
        Thread other = Support.fiber(Environment.REAL, body);
        Support.join(first);
        Support.join(second);
        Support.join(other);
    }

    /** Two fibers each select a take from one channel and a put on the other, crosswise. Every round ends. */
    static void crossing() throws Exception {
        Simulated.simulate(true);
        Environment noisy = new Support.Noisy(4, 3_000);
        Channel<Integer> a = Channel.rendezvous();
        Channel<Integer> b = Channel.rendezvous();
        AtomicInteger sent = new AtomicInteger();
        AtomicInteger got = new AtomicInteger();
        int rounds = 5_000;
        Thread one = Support.fiber(noisy, () -> cross(rounds, a, b, sent, got));
        Thread two = Support.fiber(noisy, () -> cross(rounds, b, a, sent, got));
        Support.join(one);
        Support.join(two);
        Simulated.simulate(false);
        require(sent.get() == got.get(), sent + " puts met " + got + " takes");
        require(sent.get() == rounds, rounds + " rounds made " + sent + " transfers");
        require(Support.nodes(a) == 0 && Support.nodes(b) == 0, "nodes were left behind");
    }

    private static void cross(int rounds, Channel<Integer> in, Channel<Integer> out, AtomicInteger sent, AtomicInteger got)
            throws InterruptedException {
        for (int i = 0; i < rounds; i++) {
            Select.Chosen chosen = Select.of(Select.take(in), Select.put(out, i)).await();
            (chosen.index() == 0 ? got : sent).incrementAndGet();
        }
    }

    /**
     * One of our selects crosses a choice of another library on two channels. Every round is one transfer.
     */
    static void crossingForeign() throws Exception {
        Simulated.simulate(true);
        Environment noisy = new Support.Noisy(4, 3_000);
        Channel<Integer> a = Channel.rendezvous();
        Channel<Integer> b = Channel.rendezvous();
        AtomicInteger sent = new AtomicInteger();
        AtomicInteger got = new AtomicInteger();
        int rounds = 5_000;
        Thread ours = Support.fiber(noisy, () -> cross(rounds, a, b, sent, got));
        Thread theirs = Support.fiber(noisy, () -> {
            for (int i = 0; i < rounds; i++) {
                (choose(a, b, i) ? sent : got).incrementAndGet();
            }
        });
        Support.join(ours);
        Support.join(theirs);
        Simulated.simulate(false);
        require(sent.get() == rounds && got.get() == rounds, rounds + " rounds made " + sent + " puts and " + got + " takes");
    }

    /** Puts on one channel or takes from the other, through handlers of one flag; true if it put. */
    private static boolean choose(Channel<Integer> out, Channel<Integer> in, int value) throws InterruptedException {
        Foreign.Flag flag = new Foreign.Flag();
        AtomicReference<Boolean> chosen = new AtomicReference<>();
        Thread self = Thread.currentThread();
        if (out.put((Object) value, choice(flag, chosen, true, self)) != Port.PENDING) {
            return true;
        }
        if (flag.active && in.take(choice(flag, chosen, false, self)) != Port.PENDING) {
            return false;
        }
        while (chosen.get() == null) {
            LockSupport.park();
        }
        return chosen.get();
    }

    private static Foreign choice(Foreign.Flag flag, AtomicReference<Boolean> chosen, boolean put, Thread waiting) {
        return new Foreign(flag, r -> {
            require(chosen.compareAndSet(null, put), "completed twice");
            LockSupport.unpark(waiting);
        });
    }

    /**
     * Four selects over three channels claim each other in all orders. No transfer happens twice or by half.
     */
    static void ring() throws Exception {
        Simulated.simulate(true);
        Environment noisy = new Support.Noisy(4, 3_000);
        List<Channel<Integer>> channels = List.of(Channel.rendezvous(), Channel.rendezvous(), Channel.rendezvous());
        AtomicInteger sent = new AtomicInteger();
        AtomicInteger got = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            threads.add(Support.fiber(noisy, () -> {
                for (int i = 0; i < 3_000; i++) {
                    int c = ThreadLocalRandom.current().nextInt(3);
                    Select.Chosen chosen = Select.of(Select.take(channels.get(c)), Select.put(channels.get((c + 1) % 3), i),
                            Select.take(channels.get((c + 2) % 3))).awaitWithin(2_000_000);
                    if (chosen != null) {
                        (chosen.index() == 1 ? sent : got).incrementAndGet();
                    }
                }
            }));
        }
        for (Thread t : threads) {
            Support.join(t);
        }
        Simulated.simulate(false);
        require(sent.get() == got.get() && sent.get() > 0, sent + " puts met " + got + " takes");
        channels.forEach(c -> require(Support.nodes(c) == 0, "nodes were left behind"));
    }

    /**
     * An event that won the claim is delivered in spite of an interrupt. The interrupt stays for the next
     * operation.
     */
    static void interruptAfterClaim() throws Exception {
        AtomicReference<Parked> waiting = new AtomicReference<>();
        AtomicReference<Object> seen = new AtomicReference<>();
        Thread owner = Support.fiber(Environment.REAL, () -> {
            Parked p = new Parked(Fiber.current(), WaitReason.CHANNEL_TAKE, null);
            waiting.set(p);
            boolean completed = p.await();
            seen.set(completed + " " + p.result() + " " + Thread.currentThread().isInterrupted());
        });
        Support.until("the fiber waits", () -> waiting.get() != null && Support.parked(owner));
        require(waiting.get().claim(), "the claim was free");
        owner.interrupt();
        Support.until("it sleeps again, the interrupt put off", () -> !owner.isInterrupted() && Support.parked(owner));
        waiting.get().complete(null, "value");
        Support.join(owner);
        require("true value true".equals(seen.get()), "completed, result, still interrupted: " + seen);
    }

    /** A time-out after an event has taken the claim does not end the wait; the result does. */
    static void expiryAfterClaim() throws Exception {
        AtomicReference<Parked> waiting = new AtomicReference<>();
        AtomicReference<Object> seen = new AtomicReference<>();
        Thread owner = Support.fiber(Environment.REAL, () -> {
            Parked p = new Parked(Fiber.current(), WaitReason.CHANNEL_TAKE, null);
            waiting.set(p);
            seen.set(p.await() + " " + p.result());
        });
        Support.until("the fiber waits", () -> waiting.get() != null && Support.parked(owner));
        require(waiting.get().claim(), "the claim was free");
        waiting.get().expire();
        Support.until("the fiber sleeps again", () -> Support.parked(owner) || !owner.isAlive());
        waiting.get().complete(null, "value");
        Support.join(owner);
        require("true value".equals(seen.get()), "completed, result: " + seen);
    }

    /** A fiber that is woken by the interrupt of a cause sees the cause. */
    static void causeFirst() throws Exception {
        Simulated.simulate(true);
        Environment slow = new Support.Noisy(1, 3_000_000);
        for (int i = 0; i < 20; i++) {
            AtomicReference<Object> ended = new AtomicReference<>();
            AtomicReference<Fiber> fiber = new AtomicReference<>();
            Thread victim = Support.fiber(Environment.REAL, () -> {
                fiber.set(Fiber.current());
                try {
                    Channel.rendezvous().receive();
                } catch (Cancelled | InterruptedException e) {
                    ended.set(e);
                }
            });
            Support.until("the fiber waits", () -> Support.parked(victim));
            Support.join(Support.fiber(slow, () -> fiber.get().cancel(new Cause.Cancel("test"))));
            Support.join(victim);
            require(ended.get() instanceof Cancelled, "the interrupt came before its cause: " + ended);
        }
        Simulated.simulate(false);
    }

    /** A fiber that has to end throws its cause at each operation, even if it has swallowed the interrupt. */
    static void levelTriggered() throws Exception {
        AtomicInteger thrown = new AtomicInteger();
        AtomicReference<Fiber> fiber = new AtomicReference<>();
        Thread victim = Support.fiber(Environment.REAL, () -> {
            fiber.set(Fiber.current());
            for (int i = 0; i < 3; i++) {
                try {
                    Channel.of(Buffer.fixed(1)).receive();
                } catch (Cancelled e) {
                    thrown.incrementAndGet();
                    Thread.interrupted();
                }
            }
            Fiber.current().shield(() -> require(Channel.of(Buffer.fixed(1)).trySend("in clean-up"), "a shield masks the cause"));
        });
        Support.until("the fiber waits", () -> Support.parked(victim));
        fiber.get().cancel(new Cause.Cancel(null));
        Support.join(victim);
        require(thrown.get() == 3, "three operations threw " + thrown + " times");
    }

    /** A cause that comes during a shield does not disturb the clean-up that waits in it. */
    static void shielded() throws Exception {
        Channel<Object> c = Channel.rendezvous();
        AtomicReference<Object> seen = new AtomicReference<>();
        AtomicReference<Fiber> fiber = new AtomicReference<>();
        Thread victim = Support.fiber(Environment.REAL, () -> {
            fiber.set(Fiber.current());
            Fiber.current().shield(() -> {
                try {
                    seen.set(c.receive());
                } catch (InterruptedException e) {
                    seen.set(e);
                }
            });
            try {
                c.receiveNow();
            } catch (Cancelled e) {
                seen.set(seen.get() + ", then cancelled");
            }
        });
        Support.until("the clean-up waits", () -> Support.parked(victim));
        fiber.get().cancel(new Cause.Cancel(null));
        Support.until("it has met the interrupt", () -> !victim.isAlive() || !victim.isInterrupted() && Support.parked(victim));
        require(c.sendWithin("cleaned", Support.LIMIT_NANOS) == Boolean.TRUE, "the clean-up waits on");
        Support.join(victim);
        require("cleaned, then cancelled".equals(seen.get()), "the clean-up saw: " + seen);
    }

    /** An interrupted taker, putter or selector leaves no node and no value. */
    static void ghosts() throws Exception {
        Channel<Integer> a = Channel.rendezvous();
        Channel<Integer> b = Channel.rendezvous();
        List<Support.Body> waits = List.of(() -> a.receive(), () -> a.send(1), () -> a.receiveWithin(3600_000_000_000L),
                () -> Select.of(Select.take(a), Select.put(b, 1)).await());
        for (Support.Body wait : waits) {
            Thread t = Support.fiber(Environment.REAL, () -> {
                try {
                    wait.run();
                } catch (InterruptedException e) {
                    return;
                }
                throw new AssertionError("it was not interrupted");
            });
            Support.until("it waits", () -> Support.parked(t));
            t.interrupt();
            Support.join(t);
            require(Support.nodes(a) == 0 && Support.nodes(b) == 0, "an interrupted wait left a node");
        }
        require(a.receiveWithin(1_000_000) == Port.PENDING && a.sendWithin(1, 1_000_000) == Port.PENDING, "the time runs out");
        require(Support.nodes(a) == 0, "a wait that ran out of time left a node");
        Thread t = Support.fiber(Environment.REAL, () -> Select.of(Select.take(a), Select.take(b)).await());
        Support.until("it waits", () -> Support.parked(t));
        require(a.send(1), "somebody takes");
        Support.join(t);
        require(Support.nodes(a) == 0 && Support.nodes(b) == 0, "the branch that lost left a node");
    }

    /** Closing releases every taker, keeps waiting puts, and is visible to a thread that only polls. */
    static void close() throws Exception {
        Channel<Integer> c = Channel.rendezvous();
        List<Thread> takers = new ArrayList<>();
        AtomicInteger released = new AtomicInteger();
        for (int i = 0; i < 5; i++) {
            takers.add(Support.fiber(Environment.REAL, () -> {
                if (c.receive() == null) {
                    released.incrementAndGet();
                }
            }));
        }
        Support.until("five wait", () -> c.info().takers().size() == 5);
        c.close();
        for (Thread t : takers) {
            Support.join(t);
        }
        require(released.get() == 5 && !c.send(1) && c.receive() == null, "all takers are released with null, puts are refused");
        Channel<Integer> full = Channel.of(Buffer.fixed(1));
        full.send(1);
        Thread putter = Support.fiber(Environment.REAL, () -> require(full.send(2), "a waiting put stays"));
        Support.until("it waits", () -> full.info().putters().size() == 1);
        full.close();
        require(full.receive() == 1 && full.receive() == 2 && full.receive() == null, "what was put before can be taken");
        Support.join(putter);
    }

    /** A thread that only polls sees the close. */
    static void closeIsVisible() throws Exception {
        for (int i = 0; i < 3; i++) {
            Channel<Integer> c = Channel.rendezvous();
            Thread looker = Support.platform(Environment.REAL, () -> {
                while (!c.isClosed()) {}
            });
            Thread.sleep(300); // the loop has to be compiled before the close, or the check proves nothing
            c.close();
            Support.join(looker);
        }
    }

    /** The value of a putter that waits moves into the room that a take makes. */
    static void refill() throws Exception {
        Channel<Integer> c = Channel.of(Buffer.fixed(1));
        c.send(1);
        Thread putter = Support.fiber(Environment.REAL, () -> c.send(2));
        Support.until("it waits", () -> c.info().putters().size() == 1);
        require(Integer.valueOf(1).equals(c.receiveNow()), "the first value comes first");
        Support.join(putter);
        require(Integer.valueOf(2).equals(c.receiveNow()), "the value of the waiting put was lost");
    }

    /**
     * A put meets a waiting take on a channel with a buffer of the program's own, in Java. Such a channel is
     * locked by a mutex.
     */
    static void ownBuffer() throws Exception {
        Channel<Integer> c = Channel.of(new Own());
        AtomicInteger got = new AtomicInteger();
        Thread taker = Support.fiber(Environment.REAL, () -> got.set(c.receive()));
        Support.until("it waits", () -> c.info().takers().size() == 1);
        c.send(1);
        Support.join(taker);
        require(got.get() == 1, "the value went elsewhere");
    }

    /** A buffer of one value, as a program may write it. */
    private static final class Own extends Buffer {
        private Object value;

        @Override
        public boolean isFull() {
            return value != null;
        }

        @Override
        public void insert(Object v) {
            value = v;
        }

        @Override
        public Object remove() {
            Object v = value;
            value = null;
            return v;
        }

        @Override
        public int capacity() {
            return 1;
        }

        @Override
        public int size() {
            return value == null ? 0 : 1;
        }

        @Override
        public boolean isUnblocking() {
            return false;
        }

        @Override
        public boolean runsUserCode() {
            return true;
        }

        @Override
        public Object[] snapshot() {
            return value == null ? new Object[0] : new Object[] {value};
        }
    }
}
