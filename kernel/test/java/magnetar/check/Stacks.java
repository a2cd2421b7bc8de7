package magnetar.check;

import static magnetar.check.Support.require;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.inspect.Locals;

/** The local variables of fibers are read while these are woken in all ways. */
final class Stacks {
    private static final int PAIRS = 8;
    private static final long NANOS = Long.getLong("magnetar.check.meeting", 2_000) * 1_000_000;
    private static final int ROUNDS_AT_LEAST = 10;
    private static final int READS_AT_LEAST = 50;
    private static final int END = -1;

    private static volatile boolean over;
    private static volatile Object garbage;

    private Stacks() {}

    /** What a fiber holds, and nobody else. */
    private record Marker(int fiber) {}

    /** Two fibers that wait for each other: on channels, a lock, a monitor and time. */
    private static final class Pair {
        final Channel<Integer> there = Channel.rendezvous();
        final Channel<Integer> back = Channel.rendezvous();
        final ReentrantLock lock = new ReentrantLock();
        final Object monitor = new Object();
        final AtomicLong rounds = new AtomicLong();

        /** The first fiber ends both. */
        void play(int fiber, boolean first) throws Exception {
            Marker marker = new Marker(fiber);
            for (int i = 0, got = 0; got != END; i++) {
                got = deep(i % 20, marker, first);
                rounds.incrementAndGet();
            }
        }

        private int deep(int left, Marker marker, boolean first) throws Exception {
            int got = left > 0 ? deep(left - 1, marker, first) : exchange(first);
            require(marker.fiber >= 0, "a local variable has changed");
            garbage = new byte[2_000];
            return got;
        }

        private int exchange(boolean first) throws Exception {
            int said;
            if (first) {
                said = over ? END : 1;
                there.send(said);
                back.receive();
            } else {
                said = there.receive();
                back.send(said);
            }
            lock.lock();
            try {
                LockSupport.parkNanos(1_000);
            } finally {
                lock.unlock();
            }
            synchronized (monitor) {
                Thread.yield();
            }
            return said;
        }
    }

    /** No fiber loses a wake-up, and what is read of a fiber is its own. The control is a reader that forgets who woke the fiber meanwhile. */
    static void read() throws Exception {
        if (Boolean.getBoolean("magnetar.check.careless")) {
            run(Careless::look, 0);
        } else if (Locals.isOn()) {
            run(Stacks::look, READS_AT_LEAST);
        }
    }

    private static void run(Consumer<Thread> look, int readsAtLeast) throws Exception {
        over = false;
        reads.set(0);
        List<Pair> pairs = new ArrayList<>();
        List<Thread> fibers = new ArrayList<>();
        for (int i = 0; i < PAIRS; i++) {
            Pair pair = new Pair();
            pairs.add(pair);
            for (boolean first : new boolean[] {true, false}) {
                int number = fibers.size();
                fibers.add(Support.fiber(Environment.REAL, () -> pair.play(number, first)));
            }
        }
        Thread reader = Support.platform(Environment.REAL, () -> {
            while (!over) {
                for (Thread fiber : fibers) {
                    look.accept(fiber);
                }
            }
        });
        long start = System.nanoTime();
        while (System.nanoTime() - start < NANOS || System.nanoTime() - start < Support.LIMIT_NANOS && !(reads.get() >= readsAtLeast && enough(pairs))) {
            System.gc();
        }
        over = true;
        Support.join(reader);
        for (Thread fiber : fibers) {
            Support.join(fiber);
        }
        require(enough(pairs), "a pair made less than " + ROUNDS_AT_LEAST + " rounds");
        require(reads.get() >= readsAtLeast, "local variables were read only " + reads + " times");
    }

    private static boolean enough(List<Pair> pairs) {
        return pairs.stream().allMatch(pair -> pair.rounds.get() >= ROUNDS_AT_LEAST);
    }

    private static final AtomicLong reads = new AtomicLong();

    private static void look(Thread fiber) {
        List<Locals.Frame> frames = Locals.of(fiber);
        if (frames != null) {
            Marker own = null;
            for (Locals.Frame frame : frames) {
                for (Object held : frame.objects()) {
                    held.hashCode(); // which fails if this is no object
                    if (held instanceof Marker marker) {
                        require(own == null || own == marker, "a stack has the local variables of two fibers");
                        own = marker;
                    }
                }
            }
            if (own != null) {
                reads.incrementAndGet();
            }
        }
    }

    /** Does to the state of a fiber what `Locals` does, but for its last step. */
    private static final class Careless {
        private static final VarHandle STATE = state();
        private static final int PARKED = 4;
        private static final int SUSPENDED = 1 << 8;

        private static VarHandle state() {
            try {
                Class<?> thread = Class.forName("java.lang.VirtualThread");
                return MethodHandles.privateLookupIn(thread, MethodHandles.lookup()).findVarHandle(thread, "state", int.class);
            } catch (ReflectiveOperationException e) {
                throw new AssertionError(e);
            }
        }

        static void look(Thread fiber) {
            if (STATE.compareAndSet(fiber, PARKED, PARKED | SUSPENDED)) {
                for (int i = 0; i < 100; i++) {
                    Thread.onSpinWait();
                }
                STATE.setVolatile(fiber, PARKED);
            }
        }
    }
}
