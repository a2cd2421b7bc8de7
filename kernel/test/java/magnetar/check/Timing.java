package magnetar.check;

import static magnetar.check.Support.require;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import magnetar.kernel.channel.Callback;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.channel.Port;
import magnetar.kernel.channel.TimeoutChannel;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Timer;
import magnetar.kernel.time.Wheel;

/** The wheel: no timer is early or lost, its thread sleeps when idle and runs no code of the program. */
final class Timing {
    private Timing() {}

    private static final class Probe extends Timer {
        final Environment environment;
        final long due;
        final AtomicLong firedAt = new AtomicLong();
        final CountDownLatch fired;

        Probe(Environment environment, long due, CountDownLatch fired) {
            super(due);
            this.environment = environment;
            this.due = due;
            this.fired = fired;
        }

        @Override
        protected void expire() {
            firedAt.set(environment.nanoTime());
            fired.countDown();
        }
    }

    /** A clock that stands still until it is moved. */
    static final class Clock extends Environment {
        private final AtomicLong now = new AtomicLong(System.nanoTime());

        @Override
        public long nanoTime() {
            return now.get();
        }

        /** Moves the clock and wakes the wheel's thread. */
        void advance(long nanos) {
            now.addAndGet(nanos);
            LockSupport.unpark(thread());
        }

        /** The thread of this environment's wheel, found by its blocker. */
        Thread thread() {
            AtomicReference<Thread> found = new AtomicReference<>();
            Support.until("the timer thread sleeps", () -> {
                for (Thread t : Thread.getAllStackTraces().keySet()) {
                    if (LockSupport.getBlocker(t) == Wheel.of(this)) {
                        found.set(t);
                    }
                }
                return found.get() != null;
            });
            return found.get();
        }
    }

    /** Hundreds of timers on the real clock: none is early, none is lost. */
    static void neverEarly() throws Exception {
        Wheel wheel = Wheel.of(Environment.REAL);
        Random chance = new Random(7);
        int n = 400;
        CountDownLatch fired = new CountDownLatch(n);
        List<Probe> probes = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            probes.add(new Probe(Environment.REAL, System.nanoTime() + chance.nextInt(300_000_000), fired));
            wheel.add(probes.get(i));
        }
        require(fired.await(Support.LIMIT_NANOS, TimeUnit.NANOSECONDS), fired.getCount() + " timers were forgotten");
        for (Probe p : probes) {
            require(p.firedAt.get() >= p.due, "a timer expired " + (p.due - p.firedAt.get()) + " ns early");
        }
    }

    /** A timer due before the one that the thread sleeps for wakes the thread. */
    static void earlierTimer() throws Exception {
        Wheel wheel = Wheel.of(Environment.REAL);
        Probe far = new Probe(Environment.REAL, System.nanoTime() + 2 * Support.LIMIT_NANOS, new CountDownLatch(1));
        wheel.add(far);
        Support.until("the timer thread sleeps", () -> sleeping(Thread.State.TIMED_WAITING));
        Probe near = new Probe(Environment.REAL, System.nanoTime() + 10_000_000, new CountDownLatch(1));
        wheel.add(near);
        require(near.fired.await(Support.LIMIT_NANOS, TimeUnit.NANOSECONDS), "the earlier timer waits for the later one");
        require(wheel.cancel(far) && !wheel.cancel(near), "what has expired cannot be cancelled, what waits can");
    }

    private static boolean sleeping(Thread.State state) {
        for (Thread t : Thread.getAllStackTraces().keySet()) {
            if (LockSupport.getBlocker(t) == Wheel.of(Environment.REAL)) {
                return t.getState() == state;
            }
        }
        return false;
    }

    /** On a clock moved by hand: order, cascades over all levels, far timers. No timer is early. */
    static void wheelOnClock() throws Exception {
        Clock clock = new Clock();
        Wheel wheel = Wheel.of(clock);
        long ms = 1_000_000;
        long[] after = {1, 2, 63, 64, 65, 70, 71, 72, 4095, 4096, 4100, 4101, 300_000, 300_001, 20_000_000L, 1L << 33, 1L << 37};
        List<Probe> probes = new ArrayList<>();
        long begin = clock.nanoTime();
        for (long a : after) {
            probes.add(new Probe(clock, begin + a * ms, new CountDownLatch(1)));
            wheel.add(probes.getLast());
        }
        require(wheel.size() == after.length, "all are in the wheel");
        for (int i = 0; i < after.length; i++) {
            clock.advance(begin + after[i] * ms - 1 - clock.nanoTime());
            clock.thread();
            require(probes.get(i).fired.getCount() == 1, "the timer of " + after[i] + " ms expired early");
            clock.advance(1);
            boolean fired = probes.get(i).fired.await(Support.LIMIT_NANOS, TimeUnit.NANOSECONDS);
            require(fired, "the timer of " + after[i] + " ms was forgotten");
        }
        require(wheel.size() == 0, "the wheel is empty");
    }

    /** Without timers the thread sleeps without a limit. */
    static void idle() throws Exception {
        Channel<Integer> c = Channel.rendezvous();
        require(c.receiveWithin(2_000_000) == Port.PENDING, "the time runs out");
        Support.until("the idle timer thread sleeps without limit", () -> sleeping(Thread.State.WAITING));
        require(Wheel.of(Environment.REAL).size() == 0, "the wheel is empty");
    }

    /**
     * A wait that ends in time removes its timer. A timeout channel has a timer only while a waiter is
     * queued.
     */
    static void released() throws Exception {
        Wheel wheel = Wheel.of(Environment.REAL);
        Channel<Integer> c = Channel.rendezvous();
        Thread t = Support.fiber(Environment.REAL, () -> c.receiveWithin(3600_000_000_000L));
        Support.until("it waits", () -> Support.parked(t) && wheel.size() == 1);
        require(c.send(1), "somebody takes");
        Support.join(t);
        require(wheel.size() == 0, "a served wait left its timer");
        Channel<Object> hour = TimeoutChannel.after(3600_000_000_000L);
        require(wheel.size() == 0, "a timeout channel nobody waits on is held by the wheel");
        Thread u = Support.fiber(Environment.REAL, () -> hour.receive());
        Support.until("it waits", () -> Support.parked(u) && wheel.size() == 1);
        require(hour.send("early"), "somebody takes");
        Support.join(u);
        require(wheel.size() == 0, "a timeout channel whose taker was served is held by the wheel");
        Thread v = Support.fiber(Environment.REAL, () -> require(TimeoutChannel.after(2_000_000).receive() == null, "it closes"));
        Support.join(v);
    }

    /** One waiter leaves a timeout channel while another arrives. The one that stays has its timer. */
    static void sharedTimeout() throws Exception {
        Channel<Object> hour = TimeoutChannel.after(3600_000_000_000L);
        Wheel wheel = Wheel.of(Environment.REAL);
        Claims.Meeting barrier = new Claims.Meeting();
        Thread other = Support.platform(Environment.REAL, () -> {
            for (int i = 0; barrier.more(i); i++) {
                hour.take(new Foreign(r -> {})); // the one that leaves, because the first is served first
                barrier.await();
                require(hour.sendNow(i) == Boolean.TRUE, "the first is served");
                barrier.await();
                barrier.await();
            }
        });
        Support.join(Support.platform(Environment.REAL, () -> {
            for (int i = 0; barrier.more(i); i++) {
                barrier.await();
                for (int n = i % 64; n > 0; n--) {
                    Thread.onSpinWait();
                }
                hour.take(new Foreign(r -> {}));
                barrier.await();
                require(wheel.size() == 1, "round " + i + ": somebody waits on the timeout channel, and its timer is gone");
                require(hour.sendNow(i) == Boolean.TRUE, "the one that stays is served");
                barrier.await();
            }
        }));
        Support.join(other);
        require(wheel.size() == 0, "nobody waits");
    }

    /** A wait that is longer than the clock can count does not end. */
    static void durations() throws Exception {
        Channel<Integer> c = Channel.rendezvous();
        Thread t = Support.fiber(Environment.REAL, () -> c.receiveWithin(Long.MAX_VALUE - 1));
        Support.until("it waits", () -> Support.parked(t) || !t.isAlive());
        require(t.isAlive(), "a wait of 292 years was over at once");
        c.close();
        Support.join(t);
        long now = System.nanoTime();
        require(Durations.deadline(now, Durations.INFINITE) == Durations.INFINITE, "no limit");
        require(Durations.deadline(now, Durations.INFINITE - 1) == Durations.INFINITE, "too far to count is no limit");
        require(Durations.deadline(now, 5) == now + 5, "near");
        require(Durations.deadline(-5, 10) == 5, "the clock may be below zero");
    }

    /** Takes from a timeout channel that is still open then. A busy machine may take longer than a short time. */
    private static void waiting(Function<Channel<Object>, Object> take) {
        for (long nanos = 50_000_000; take.apply(TimeoutChannel.after(nanos)) != Port.PENDING; nanos *= 2) {}
    }

    /** A callback on a timeout channel never runs on the timer thread, whichever thread was asked for. */
    static void notOnTimerThread() throws Exception {
        AtomicReference<Boolean> onTimer = new AtomicReference<>();
        CountDownLatch called = new CountDownLatch(1);
        waiting(c -> c.receiveAsync(new Callback(r -> {
            onTimer.set(Wheel.isTimerThread());
            called.countDown();
        }, true)));
        require(called.await(20, TimeUnit.SECONDS), "the callback comes");
        require(!onTimer.get(), "code of the program ran on the timer thread");
        AtomicInteger foreign = new AtomicInteger();
        CountDownLatch completed = new CountDownLatch(1);
        waiting(c -> c.take(new Foreign(r -> {
            foreign.set(Wheel.isTimerThread() ? 1 : 2);
            completed.countDown();
        })));
        require(completed.await(20, TimeUnit.SECONDS), "the completion comes");
        require(foreign.get() == 2, "code of another library ran on the timer thread");
    }
}
