package magnetar.kernel.sched;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ForkJoinWorkerThread;

/**
 * Tells which carriers compute: those that have run the same body for {@value #LONG_NANOS} ns.
 *
 * <p>A carrier is seen to run the same body if the same continuation is mounted on it, and it has begun no turn
 * in between. A continuation that was mounted again looks the same. So each carrier is read several times in a
 * row, and {@link HandOff} counts its turns here. Reads race with the carrier. One that comes too late, or sees
 * a carrier between two bodies, delays the verdict by a few ticks.
 *
 * <p>Relies on the inside of {@code java.lang.Thread}, as {@link HandOff} does, its only user.
 */
final class Computing {
    private static final int COUNTERS = 256; // carriers with the same number modulo this share a counter
    private static final int LINE = 16; // ints in a cache line
    private static final int READS = 16;
    private static final int SPARE = 8; // threads that may start meanwhile
    private static final long LONG_NANOS = 8_000_000; // less than the monitor's patience

    /** The turns that each carrier has begun, a cache line each. Written by the carrier, read by the monitor. */
    private static final int[] TURNS = new int[COUNTERS * LINE];

    private static final WeakReference<Object> CHANGING = new WeakReference<>(null);

    private final VarHandle mounted;
    private final ForkJoinPool pool;

    // Only accessed by the monitor.
    private Map<Thread, Body> bodies = Map.of();

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

    /** Counts a turn of the current thread, a carrier, and returns the count. */
    static int nextTurn() {
        return ++TURNS[counter((ForkJoinWorkerThread) Thread.currentThread())];
    }

    private static int counter(ForkJoinWorkerThread carrier) {
        return carrier.getPoolIndex() % COUNTERS * LINE;
    }

    /** What a carrier runs, and since when at least. A continuation refers to all that its fiber holds, so it is held weakly. */
    private record Body(WeakReference<Object> continuation, int turn, long since) {
        boolean isSame(Body other) {
            Object mine = continuation.get();
            return other != null && mine != null && other.continuation.refersTo(mine) && turn == other.turn;
        }
    }

    /** How many carriers compute, as far as this and earlier calls saw. Called at each tick while a fiber may be stranded. */
    int count() {
        long now = System.nanoTime();
        Map<Thread, Body> seen = new HashMap<>();
        int computing = 0;
        for (ForkJoinWorkerThread carrier : carriers()) {
            Body body = read(carrier, now);
            if (body == null) {
                continue;
            }
            Body before = bodies.get(carrier);
            boolean same = body.isSame(before);
            seen.put(carrier, same ? before : body);
            if (same && now - before.since >= LONG_NANOS) {
                computing++;
            }
        }
        bodies = seen;
        return computing;
    }

    /** Null if the carrier runs nothing. Another body each time if it changes between the reads. */
    private Body read(ForkJoinWorkerThread carrier, long now) {
        Object first = mounted.getOpaque(carrier);
        int turn = TURNS[counter(carrier)];
        for (int i = 0; i < READS; i++) {
            Thread.onSpinWait();
            Object next = mounted.getOpaque(carrier);
            if (next != first) {
                return new Body(CHANGING, turn, now);
            }
        }
        return first == null ? null : new Body(new WeakReference<>(first), turn, now);
    }

    private List<ForkJoinWorkerThread> carriers() {
        ThreadGroup root = Thread.currentThread().getThreadGroup();
        while (root.getParent() != null) {
            root = root.getParent();
        }
        Thread[] all = new Thread[root.activeCount() + SPARE];
        int n = root.enumerate(all);
        List<ForkJoinWorkerThread> carriers = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            if (all[i] instanceof ForkJoinWorkerThread w && w.getPool() == pool) {
                carriers.add(w);
            }
        }
        return carriers;
    }
}
