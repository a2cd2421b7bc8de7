package magnetar.kernel.sched;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ForkJoinWorkerThread;

/**
 * Tells which carriers compute: those that have run the same body for {@link SchedulerMonitor#PATIENCE_NANOS} ns,
 * and for a third of that on a core. A body that does without a core may have lost it to other threads. If it keeps its
 * carrier ten times as long, it blocks, for example in a read of a file, which counts as well.
 *
 * <p>A carrier is seen to run the same body if the same continuation is mounted on it, and it has resumed no fiber
 * in between. A continuation that was mounted again looks the same. So each carrier is read several times in a
 * row, and {@link HandOff} counts here the fibers that it resumes. Reads race with the carrier. One that comes too late, or sees
 * a carrier between two bodies, delays the verdict by a few ticks.
 *
 * <p>Relies on the inside of {@code java.lang.Thread}, as {@link HandOff} does, its only user.
 */
final class Computing {
    private static final int COUNTERS = 256; // carriers with the same number modulo this share a counter
    private static final int LINE = 16; // ints in a cache line
    private static final int READS = 16;
    private static final long CPU_NANOS = SchedulerMonitor.PATIENCE_NANOS / 3;
    private static final long BLOCKED_NANOS = 10 * SchedulerMonitor.PATIENCE_NANOS;
    private static final int SPARE = 8; // threads that may start meanwhile

    /** How many fibers that were woken by {@link HandOff} each carrier has resumed. A cache line each, written by the carrier. */
    private static final int[] RESUMPTIONS = new int[COUNTERS * LINE];

    private final VarHandle mounted;
    private final ForkJoinPool pool;

    // Only accessed by the monitor.
    private Watched[] all = {};

    private Computing(VarHandle mounted, ForkJoinPool pool) {
        this.mounted = mounted;
        this.pool = pool;
    }

    /** For the carriers of this pool; null if the class Thread is closed, or does not look as expected. */
    static Computing of(ForkJoinPool pool) {
        try {
            MethodHandles.Lookup in = MethodHandles.privateLookupIn(Thread.class, MethodHandles.lookup());
            Class<?> continuation = Class.forName("jdk.internal.vm.Continuation");
            return new Computing(in.findVarHandle(Thread.class, "cont", continuation).withInvokeBehavior(), pool);
        } catch (Throwable closed) {
            return null;
        }
    }

    /** Counts a resumption by the current thread, a carrier, and returns the count. */
    static int nextResumption() {
        return ++RESUMPTIONS[counter((ForkJoinWorkerThread) Thread.currentThread())];
    }

    private static int counter(ForkJoinWorkerThread carrier) {
        return carrier.getPoolIndex() % COUNTERS * LINE;
    }

    /** A carrier, and what it runs. Only accessed by the monitor. */
    private static final class Watched {
        final ForkJoinWorkerThread carrier;

        // The identity hash of a continuation, 0 if it ran none or changed. A reference would hold all that the fiber holds.
        private int body;
        private int resumptions;
        private long ranFor;
        private long cpuBefore; // negative if not known

        Watched(ForkJoinWorkerThread carrier) {
            this.carrier = carrier;
        }

        /** True if it computes, as far as was seen. */
        boolean computes(int body, int resumptions, long elapsed) {
            if (elapsed == 0 || body == 0 || body != this.body || resumptions != this.resumptions) {
                this.body = body;
                this.resumptions = resumptions;
                ranFor = 0;
                return false;
            }
            if (ranFor == 0) {
                cpuBefore = Carriers.cpuNanos(carrier);
            }
            ranFor += elapsed;
            return ranFor >= BLOCKED_NANOS || ranFor >= SchedulerMonitor.PATIENCE_NANOS && hasUsedItsCore();
        }

        private boolean hasUsedItsCore() {
            return cpuBefore < 0 || Carriers.cpuNanos(carrier) - cpuBefore >= CPU_NANOS;
        }
    }

    /**
     * How many carriers compute, as far as this and earlier calls saw. Allocates nothing, unless carriers have come
     * or gone.
     *
     * @param elapsed the nanoseconds since the last call; 0 after a gap, so that what earlier calls saw does not count
     */
    int count(long elapsed) {
        if (all.length != pool.getPoolSize() || hasOneEnded()) {
            all = search();
        }
        int computing = 0;
        for (Watched w : all) {
            int resumptions = RESUMPTIONS[counter(w.carrier)];
            if (w.computes(body(w.carrier), resumptions, elapsed)) {
                computing++;
            }
        }
        return computing;
    }

    /** 0 if the carrier runs nothing, or changes between the reads. */
    private int body(ForkJoinWorkerThread carrier) {
        Object first = mounted.getOpaque(carrier);
        for (int i = 0; i < READS; i++) {
            Thread.onSpinWait();
            Object next = mounted.getOpaque(carrier);
            if (next != first) {
                return 0;
            }
        }
        return System.identityHashCode(first); // 0 of null
    }

    private boolean hasOneEnded() {
        for (Watched w : all) {
            if (!w.carrier.isAlive()) {
                return true;
            }
        }
        return false;
    }

    /** Searches all threads of the JVM. */
    private Watched[] search() {
        ThreadGroup root = Thread.currentThread().getThreadGroup();
        while (root.getParent() != null) {
            root = root.getParent();
        }
        Thread[] threads = new Thread[root.activeCount() + SPARE];
        int n = root.enumerate(threads);
        List<Watched> found = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            if (threads[i] instanceof ForkJoinWorkerThread w && w.getPool() == pool) {
                found.add(watched(w));
            }
        }
        return found.toArray(new Watched[0]);
    }

    private Watched watched(ForkJoinWorkerThread carrier) {
        for (Watched w : all) {
            if (w.carrier == carrier) {
                return w;
            }
        }
        return new Watched(carrier);
    }
}
