package magnetar.kernel.time;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.report.Failures;
import org.junit.jupiter.api.Test;

class WheelTest {
    private static final long MS = 1_000_000;
    private static final long SPAN = 1L << 36; // in ticks

    /** An environment whose clock stands still until it is moved. */
    private static final class Clock extends Environment {
        private final boolean movesTimers;
        private volatile long now;

        Clock(long now, boolean movesTimers) {
            this.now = now;
            this.movesTimers = movesTimers;
        }

        @Override
        public long nanoTime() {
            return now;
        }

        @Override
        public boolean movesTimers() {
            return movesTimers;
        }
    }

    private static final class Probe extends Timer {
        private final Consumer<Probe> then;

        Probe(long dueNanos, Consumer<Probe> then) {
            super(dueNanos);
            this.then = then;
        }

        @Override
        protected void expire() {
            then.accept(this);
        }
    }

    // The origin is not a multiple of a tick, and the clock may be below zero.
    private final Clock clock = new Clock(-17 * MS - 3, true);
    private final long origin = clock.now;
    private final Wheel wheel = Wheel.of(clock);
    private final List<Probe> expired = new ArrayList<>();

    private Probe add(long afterNanos) {
        Probe probe = new Probe(origin + afterNanos, expired::add);
        wheel.add(probe);
        return probe;
    }

    private void moveTo(long afterNanos) {
        clock.now = origin + afterNanos;
        wheel.expireDue();
    }

    private long next() {
        return wheel.nextNanos() - origin;
    }

    @Test
    void anEnvironmentHasOneWheel() {
        assertSame(wheel, Wheel.of(clock));
        assertNotSame(wheel, Wheel.of(new Clock(0, true)));
    }

    @Test
    void anEmptyWheelHasNoNextInstant() {
        assertEquals(Long.MAX_VALUE, wheel.nextNanos());
        assertEquals(0, wheel.size());
        moveTo(MS);
        assertEquals(Long.MAX_VALUE, wheel.nextNanos());
    }

    @Test
    void itTellsTheWaitsThatItsTimersEnd() {
        Parked first = new Parked(Fiber.current(), WaitReason.MAILBOX, "first");
        Parked second = new Parked(Fiber.current(), WaitReason.MAILBOX, "second");
        add(MS);
        wheel.add(new Expiry(first, origin + 5 * MS));
        wheel.add(new Expiry(second, origin + 7 * MS));
        assertEquals(Map.of(first.id(), 5 * MS, second.id(), 7 * MS), wheel.limits());
        clock.now = origin + 6 * MS;
        assertEquals(Map.of(first.id(), 0L, second.id(), MS), wheel.limits());
    }

    @Test
    void aTimerExpiresAtTheFirstTickAtWhichItIsDueAndOnce() {
        Probe onTick = add(5 * MS);
        Probe after = add(5 * MS + 1);
        assertEquals(2, wheel.size());
        assertEquals(5 * MS, next());
        moveTo(5 * MS - 1);
        assertEquals(List.of(), expired);
        assertTrue(wheel.isWaiting(onTick));
        moveTo(5 * MS);
        assertEquals(List.of(onTick), expired);
        assertFalse(wheel.isWaiting(onTick));
        assertEquals(1, wheel.size());
        assertEquals(6 * MS, next());
        moveTo(6 * MS - 1);
        assertEquals(List.of(onTick), expired);
        moveTo(6 * MS);
        moveTo(7 * MS);
        assertEquals(List.of(onTick, after), expired);
        assertEquals(0, wheel.size());
        assertEquals(Long.MAX_VALUE, wheel.nextNanos());
    }

    @Test
    void aTimerThatIsDueAlreadyExpiresAtTheNextTick() {
        Probe past = add(-100 * MS);
        Probe now = add(0);
        assertEquals(MS, next());
        moveTo(0);
        assertEquals(List.of(), expired);
        moveTo(MS);
        assertEquals(List.of(past, now), expired);
    }

    @Test
    void aCancelledTimerDoesNotExpire() {
        Probe kept = add(3 * MS);
        Probe first = add(2 * MS);
        Probe never = new Probe(origin, expired::add);
        assertTrue(wheel.cancel(first));
        assertFalse(wheel.cancel(first));
        assertFalse(wheel.cancel(never));
        assertFalse(wheel.isWaiting(first));
        assertEquals(1, wheel.size());
        assertEquals(3 * MS, next());
        moveTo(10 * MS);
        assertEquals(List.of(kept), expired);
        assertFalse(wheel.cancel(kept));
        assertEquals(0, wheel.size());
    }

    @Test
    void ofOneTickTheFirstAddedExpiresFirstWhicheverIsCancelled() {
        for (int cancelled = -1; cancelled < 4; cancelled++) {
            expired.clear();
            long due = clock.now - origin + 2 * MS;
            List<Probe> all = new ArrayList<>(List.of(add(due), add(due), add(due), add(due)));
            if (cancelled >= 0) {
                wheel.cancel(all.remove(cancelled));
            }
            all.add(add(due));
            moveTo(due);
            assertEquals(all, expired);
        }
    }

    @Test
    void aSlotIsEmptyOnceItsLastTimerIsCancelled() {
        for (long after : new long[] {1, 63, 64, 5_000, 300_000}) {
            Probe one = add(after * MS);
            Probe two = add(after * MS);
            assertTrue(wheel.cancel(two));
            assertTrue(wheel.nextNanos() != Long.MAX_VALUE);
            assertTrue(wheel.cancel(one));
            assertEquals(Long.MAX_VALUE, wheel.nextNanos());
        }
    }

    @Test
    void aTimerOfAHigherLevelIsLookedAtWhenItsSlotBeginsAndNotBefore() {
        long[][] levels = {{63, 63}, {64, 64}, {130, 128, 130}, {4_095, 4_032, 4_095}, {4_096, 4_096}, {4_230, 4_096, 4_224, 4_230},
            {SPAN - 1, 63L << 30, (63L << 30) + (63L << 24), SPAN - (1L << 18), SPAN - (1L << 12), SPAN - 64, SPAN - 1}};
        for (long[] level : levels) {
            Clock c = new Clock(origin, true);
            Wheel w = Wheel.of(c);
            Probe probe = new Probe(origin + level[0] * MS, expired::add);
            w.add(probe);
            for (int i = 1; i < level.length; i++) {
                assertFalse(expired.contains(probe));
                assertEquals(level[i] * MS, w.nextNanos() - origin);
                c.now = w.nextNanos();
                w.expireDue();
            }
            assertTrue(expired.contains(probe));
        }
    }

    @Test
    void aTimerBeyondTheSpanOfTheWheelExpiresInTimeToo() {
        Probe far = add((SPAN + 70) * MS);
        Probe farther = add((3 * SPAN + 5) * MS);
        for (int looks = 0; looks < 40 && !expired.contains(farther); looks++) {
            assertEquals(clock.now >= origin + (SPAN + 70) * MS, expired.contains(far));
            clock.now = wheel.nextNanos();
            wheel.expireDue();
        }
        assertEquals(List.of(far, farther), expired);
        assertEquals((3 * SPAN + 5) * MS, clock.now - origin);
    }

    @Test
    void afterALongRestATimerIsNotLookedAtTooEarly() {
        clock.now = origin + 1_000 * MS; // the wheel was not read meanwhile
        Probe probe = add(1_010 * MS); // in the slot of level 1 that has begun at 960
        assertEquals(1_010 * MS, next());
        moveTo(1_010 * MS);
        assertEquals(List.of(probe), expired);
    }

    @Test
    void theWheelDoesNotGoBackWithAClockThatLags() {
        moveTo(10 * MS);
        moveTo(5 * MS);
        Probe probe = add(7 * MS);
        assertEquals(11 * MS, next());
        moveTo(11 * MS);
        assertEquals(List.of(probe), expired);
        clock.now = origin + 5 * MS;
        add(7 * MS);
        assertEquals(12 * MS, next());
    }

    @Test
    void theClockOfAWheelThatHoldsATimerIsMovedByLooksOnly() {
        add(2_000 * MS);
        clock.now = origin + 1_000 * MS;
        Probe due = add(1_000 * MS);
        Probe later = add(1_001 * MS);
        wheel.expireDue();
        assertEquals(List.of(due), expired);
        moveTo(1_001 * MS);
        assertEquals(List.of(due, later), expired);
    }

    /** What is due, in order: by tick, then by the order of adding. */
    private static final class Model {
        private final TreeMap<Long, List<Probe>> waiting = new TreeMap<>();
        private int size;

        void add(long tick, Probe probe) {
            waiting.computeIfAbsent(tick, t -> new ArrayList<>()).add(probe);
            size++;
        }

        void cancel(long tick, Probe probe) {
            waiting.get(tick).remove(probe);
            if (waiting.get(tick).isEmpty()) {
                waiting.remove(tick);
            }
            size--;
        }

        List<Probe> due(long now) {
            List<Probe> due = new ArrayList<>();
            while (!waiting.isEmpty() && waiting.firstKey() <= now) {
                due.addAll(waiting.pollFirstEntry().getValue());
            }
            size -= due.size();
            return due;
        }

        Probe any(Random chance) {
            List<Probe> all = waiting.values().stream().flatMap(List::stream).toList();
            return all.isEmpty() ? null : all.get(chance.nextInt(all.size()));
        }
    }

    private static long tickOf(long origin, long dueNanos, long now) {
        return Math.max(Math.ceilDiv(dueNanos - origin, MS), now + 1);
    }

    @Test
    void theWheelDoesAsASortedMap() {
        Random chance = new Random(11);
        Model model = new Model();
        TreeMap<Integer, Long> ticks = new TreeMap<>();
        List<Probe> added = new ArrayList<>();
        long now = 0;
        for (int step = 0; step < 4_000; step++) {
            long far = chance.nextInt(1 << chance.nextInt(1, 22));
            switch (chance.nextInt(4)) {
                case 0, 1 -> {
                    Probe probe = add((now + far) * MS - chance.nextInt((int) MS));
                    long tick = tickOf(origin, probe.dueNanos, now);
                    ticks.put(added.size(), tick);
                    added.add(probe);
                    model.add(tick, probe);
                }
                case 2 -> {
                    Probe probe = model.any(chance);
                    if (probe != null) {
                        assertTrue(wheel.cancel(probe));
                        model.cancel(ticks.get(added.indexOf(probe)), probe);
                    }
                }
                default -> {
                    now = wheel.nextNanos() != Long.MAX_VALUE && chance.nextBoolean() ? next() / MS : now + far;
                    moveTo(now * MS);
                    assertEquals(model.due(now), expired);
                    expired.clear();
                }
            }
            assertEquals(model.size, wheel.size());
            long first = model.waiting.isEmpty() ? Long.MAX_VALUE : model.waiting.firstKey();
            long looked = model.waiting.isEmpty() ? wheel.nextNanos() : next() / MS;
            assertTrue(looked <= first && looked > now, looked + " is not between " + now + " and " + first);
        }
    }

    @Test
    void aTimerThatFailsIsReportedAndTheOthersExpire() {
        List<Throwable> reported = new ArrayList<>();
        var before = Failures.setHooks(() -> List.of(f -> reported.add(f.error())));
        try {
            IllegalStateException failure = new IllegalStateException("a timer fails");
            wheel.add(new Probe(origin, p -> {
                throw failure;
            }));
            Probe other = add(0);
            moveTo(MS);
            moveTo(2 * MS);
            assertEquals(List.of(failure), reported);
            assertEquals(List.of(other), expired);
        } finally {
            Failures.setHooks(before);
        }
    }

    @Test
    void aReportThatThrowsCostsNoOtherTimer() {
        IllegalStateException unreported = new IllegalStateException("a timer fails") {
            @Override
            public synchronized Throwable getCause() {
                throw new IllegalArgumentException("its report fails too");
            }
        };
        wheel.add(new Probe(origin, p -> {
            throw unreported;
        }));
        List<Probe> others = List.of(add(0), add(0), add(2 * MS));
        assertThrows(IllegalArgumentException.class, () -> moveTo(MS));
        assertEquals(List.of(), expired);
        moveTo(2 * MS);
        assertEquals(others, expired);
    }

    @Test
    void aTimerThatHadNoMemoryExpiresAgainAfterThoseThatAreDueByThen() {
        List<String> order = new ArrayList<>();
        class Poor extends Timer {
            private final String name;
            private int failures;

            Poor(String name, int failures) {
                super(origin + MS);
                this.name = name;
                this.failures = failures;
                wheel.add(this);
            }

            @Override
            protected void expire() {
                order.add(name);
                if (failures-- > 0) {
                    throw new OutOfMemoryError("planted");
                }
            }
        }

        new Poor("a", 2);
        new Poor("b", 0);
        new Poor("c", 1);
        moveTo(MS);
        assertEquals(List.of("a", "b", "c"), order);
        assertEquals(0, wheel.size());
        add(2 * MS);
        moveTo(2 * MS);
        assertEquals(List.of("a", "b", "c", "a", "c"), order);
        moveTo(3 * MS);
        assertEquals(5, order.size(), "each pause is longer than the one before");
        moveTo(4 * MS);
        assertEquals(List.of("a", "b", "c", "a", "c", "a"), order);
        moveTo(5 * MS);
        assertEquals(6, order.size());
        assertEquals(1, expired.size());
    }

    @Test
    void thePauseBeforeARetryIsBoundedAndBeginsAnewAfterASuccess() {
        List<Long> tried = new ArrayList<>();
        class Poor extends Timer {
            private int failures;

            Poor(long due, int failures) {
                super(due);
                this.failures = failures;
                wheel.add(this);
            }

            @Override
            protected void expire() {
                tried.add((clock.now - origin) / MS);
                if (failures-- > 0) {
                    throw new OutOfMemoryError("planted");
                }
            }
        }

        new Poor(origin + MS, 9);
        for (int i = 1; i < 600; i++) {
            moveTo(i * MS);
        }
        assertEquals(List.of(1L, 2L, 4L, 8L, 16L, 32L, 64L, 128L, 256L, 384L), tried);
        tried.clear();
        new Poor(origin + 600 * MS, 1);
        moveTo(600 * MS);
        moveTo(601 * MS);
        assertEquals(List.of(600L, 601L), tried);
    }

    @Test
    void aTimerIsOfNoListWhileItExpires() {
        List<Timer> linked = new ArrayList<>();
        Consumer<Probe> look = p -> {
            if (p.next != null || p.previous != null) {
                linked.add(p);
            }
        };
        for (int i = 0; i < 3; i++) {
            wheel.add(new Probe(origin, look));
        }
        moveTo(MS);
        assertEquals(List.of(), linked);
        Probe first = add(MS);
        Probe second = add(MS);
        for (Probe cancelled : List.of(second, first)) {
            wheel.cancel(cancelled);
            assertNull(cancelled.next);
            assertNull(cancelled.previous);
        }
    }

    // --- with a thread ----------------------------------------------------------------------------------------------------

    private static void await(CountDownLatch latch) {
        try {
            assertTrue(latch.await(1, TimeUnit.SECONDS), "no timer expired");
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private static void awaitState(Thread thread, Thread.State state) {
        for (long end = System.nanoTime() + 1_000_000_000L; thread.getState() != state; Thread.onSpinWait()) {
            assertTrue(System.nanoTime() < end, "the thread is " + thread.getState() + ", not " + state);
        }
    }

    private static Thread expire(Clock clock, Wheel wheel, long dueNanos) {
        CountDownLatch done = new CountDownLatch(1);
        List<Thread> on = new ArrayList<>();
        wheel.add(new Probe(dueNanos, p -> {
            on.add(Thread.currentThread());
            on.add(Wheel.isTimerThread() ? Thread.currentThread() : null);
            done.countDown();
        }));
        clock.now += MS;
        await(done);
        assertSame(on.get(0), on.get(1));
        return on.get(0);
    }

    @Test
    void theThreadExpiresTimersAndSleepsInBetween() throws InterruptedException {
        Clock real = new Clock(5, false);
        Wheel threaded = Wheel.of(real);
        Thread thread = expire(real, threaded, 6);
        assertTrue(thread.isDaemon());
        assertEquals("magnetar-timer", thread.getName());
        assertFalse(Wheel.isTimerThread());
        awaitState(thread, Thread.State.WAITING); // no timers
        Probe far = new Probe(real.now + 3_600_000 * MS, p -> {});
        threaded.add(far);
        awaitState(thread, Thread.State.TIMED_WAITING);
        real.now += 1_000 * MS; // the thread does not notice: it sleeps until the far timer
        assertSame(thread, expire(real, threaded, real.now - 5 * MS));
        awaitState(thread, Thread.State.TIMED_WAITING);
        threaded.cancel(far);
        threaded.end();
        thread.join(1_000);
        assertFalse(thread.isAlive());
        assertEquals(0, threaded.size());
    }

    @Test
    void theThreadSleepsAsLongAsTheRealClockSays() {
        Environment environment = new Environment() {};
        Wheel threaded = Wheel.of(environment);
        CountDownLatch expired = new CountDownLatch(1);
        threaded.add(new Probe(environment.nanoTime() + 3 * MS, p -> expired.countDown()));
        await(expired);
        threaded.end();
    }

    @Test
    void theThreadTriesAgainWhatHadNoMemory() throws InterruptedException {
        Clock real = new Clock(5, false);
        Wheel threaded = Wheel.of(real);
        CountDownLatch once = new CountDownLatch(1);
        CountDownLatch twice = new CountDownLatch(2);
        threaded.add(new Probe(6, p -> {
            once.countDown();
            twice.countDown();
            if (twice.getCount() > 0) {
                throw new OutOfMemoryError("planted");
            }
        }));
        real.now += MS;
        await(once);
        for (int i = 0; i < 1000 && !twice.await(1, TimeUnit.MILLISECONDS); i++) {
            real.now += MS; // when the pause ends depends on when the thread looked at the clock
        }
        assertEquals(0, twice.getCount());
        threaded.end();
    }

    @Test
    void theThreadSurvivesAClockThatThrows() {
        CountDownLatch thrown = new CountDownLatch(1);
        Environment environment = new Environment() {
            private int looks;

            @Override
            public long nanoTime() {
                if (Wheel.isTimerThread() && looks++ == 0) {
                    thrown.countDown();
                    throw new IllegalStateException("planted");
                }
                return super.nanoTime();
            }
        };
        Wheel threaded = Wheel.of(environment);
        CountDownLatch expired = new CountDownLatch(1);
        threaded.add(new Probe(environment.nanoTime(), p -> expired.countDown()));
        await(thrown);
        await(expired);
        threaded.end();
    }

    @Test
    void aSimulatedEnvironmentHasNoThread() {
        add(MS);
        clock.now += MS;
        LockSupport.parkNanos(MS);
        assertEquals(List.of(), expired);
        assertFalse(Thread.getAllStackTraces().keySet().stream().anyMatch(t -> LockSupport.getBlocker(t) == wheel));
    }
}
