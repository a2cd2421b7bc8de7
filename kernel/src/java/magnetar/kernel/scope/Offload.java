package magnetar.kernel.scope;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import magnetar.kernel.fiber.CancellationScope;
import magnetar.kernel.fiber.Cancelled;
import magnetar.kernel.fiber.Cause;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Exit;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.park.Latch;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.sched.Settings;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Timer;
import magnetar.kernel.time.Waits;
import magnetar.kernel.time.Wheel;

/**
 * Platform threads for work during which a virtual thread would hold its carrier: file IO, native calls,
 * loops that only compute.
 *
 * <p>Invariants:
 * <ol>
 *   <li>At most {@code limit} threads work at a time. A thread that waits in an operation of the kernel does
 *       not count. So work that waits for other offloaded work, even indirectly, does not keep that work from
 *       getting a thread.
 *   <li>The caller does not return before its work has ended. The work is a cancellation scope of the thread
 *       it runs on. Cancelling the caller cancels that cancellation scope only, so no interrupt reaches the
 *       thread's next work.
 *   <li>The work has the owner of its caller: forks and deadlines inside it count as the caller's.
 * </ol>
 *
 * <p>Rejected: an executor of the JDK, whose bound makes nested work deadlock; a thread per call, whose start
 * costs 60 us.
 *
 * <p>Lock order: a call's monitor, the pool's lock, the wheel's.
 */
public final class Offload {
    private static final long KEEP_ALIVE_NANOS = 10_000_000_000L;
    private static final long LOOK_AGAIN_NANOS = 10_000_000L;

    /**
     * The threads of this JVM. Their limit is {@code magnetar.offload.threads}, by default 4 for each core
     * and at least 8.
     */
    public static final Offload SHARED = new Offload(Settings.number("magnetar.offload.threads", 1,
            Math.max(8, 4 * Runtime.getRuntime().availableProcessors())));

    private final int limit;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition queued = lock.newCondition();

    // Guarded by the lock.
    private final ArrayDeque<Call> queue = new ArrayDeque<>();
    private final List<Worker> workers = new ArrayList<>();
    private int idle;
    private int started;
    private boolean watched;

    /** A pool of at most so many threads. */
    public Offload(int limit) {
        this.limit = limit;
    }

    /**
     * A snapshot of the pool.
     *
     * @param limit how many threads may work at a time
     * @param threads how many there are
     * @param running how many have work
     * @param queued how much work waits for a thread
     */
    public record Info(int limit, int threads, int running, int queued) {}

    /** A snapshot of the pool. */
    public Info info() {
        lock.lock();
        try {
            return new Info(limit, workers.size(), workers.size() - idle, queue.size());
        } finally {
            lock.unlock();
        }
    }

    /**
     * Does the work on a platform thread, and parks until it has ended. A thread of this kind does it at
     * once.
     */
    public Object run(Callable<?> work) throws Throwable {
        Fiber fiber = Fiber.current();
        fiber.enter();
        if (Thread.currentThread() instanceof Worker) {
            return work.call();
        }
        Call call = new Call(work, fiber);
        submit(call);
        try {
            Waits.await(call.ended, WaitReason.OFFLOAD, call, Durations.INFINITE);
        } catch (Cancelled | Exit | InterruptedException e) {
            call.cancel(e);
            fiber.shield(new Ending(call));
            call.addFailureTo(e);
            throw e;
        }
        return call.outcome();
    }

    /** Waits for the end of the call, as a clean-up in a shield. */
    private record Ending(Call call) implements Runnable {
        @Override
        public void run() {
            awaitEnd(call);
        }
    }

    private static void awaitEnd(Call call) {
        boolean interrupted = false;
        while (!call.ended.isReleased()) {
            try {
                Waits.await(call.ended, WaitReason.OFFLOAD, call, Durations.INFINITE);
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void submit(Call call) {
        if (call.environment.movesTimers()) {
            Fibers.start("offload", Fibers.Hold.STRONG, () -> call.run(Fiber.current()));
            return;
        }
        if (call.environment != Environment.REAL) {
            new Worker(call, call.environment, "own").start();
            return;
        }
        lock.lock();
        try {
            queue.add(call);
            queued.signal();
            addThreads();
        } finally {
            lock.unlock();
        }
    }

    /**
     * Adds threads if there is work for them and the limit allows it. While work is queued it checks again
     * later, because a thread may have begun to wait.
     */
    private void addThreads() {
        int room = limit - workers.size() + waiting();
        for (int missing = Math.min(room, queue.size() - idle); missing > 0; missing--) {
            Worker worker = new Worker(null, Environment.REAL, Integer.toString(++started));
            worker.start(); // before it is counted, because there may be no memory for another thread
            workers.add(worker);
        }
        if (queue.size() > idle && !watched) {
            watched = true;
            Wheel.of(Environment.REAL).add(new Look());
        }
    }

    /** The next check of a queue that is not empty. */
    private final class Look extends Timer {
        Look() {
            super(Environment.REAL.nanoTime() + LOOK_AGAIN_NANOS);
        }

        @Override
        protected void expire() {
            lock.lock();
            try {
                watched = false;
                addThreads();
            } finally {
                lock.unlock();
            }
        }
    }

    /** How many threads wait in an operation of the kernel. */
    private int waiting() {
        int n = 0;
        for (Worker w : workers) {
            n += Parked.waitOf(w) != null ? 1 : 0;
        }
        return n;
    }

    private void unqueue(Call call) {
        lock.lock();
        try {
            queue.remove(call);
        } finally {
            lock.unlock();
        }
    }

    /** The next work for this thread; null if it was idle for long enough and has to end. */
    private Call next(Worker worker) {
        lock.lock();
        try {
            idle++;
            try {
                for (long left = KEEP_ALIVE_NANOS; queue.isEmpty() && left > 0; ) {
                    left = awaitQueued(left);
                }
            } finally {
                idle--;
            }
            Call call = queue.poll();
            if (call == null) {
                workers.remove(worker);
            }
            return call;
        } finally {
            lock.unlock();
        }
    }

    private long awaitQueued(long nanos) {
        try {
            return queued.awaitNanos(nanos);
        } catch (InterruptedException e) {
            return nanos; // an idle thread has no work that could be cancelled
        }
    }

    /** A thread for work. A thread that was made for one call ends after it. */
    private final class Worker extends Thread {
        private final Call own;
        private final Fiber fiber;

        Worker(Call own, Environment environment, String name) {
            super(null, null, "magnetar-offload-" + name, 0, false);
            this.own = own;
            this.fiber = Fibers.adopt(this, environment);
            setDaemon(true);
        }

        @Override
        public void run() {
            if (own != null) {
                own.run(fiber);
                return;
            }
            boolean goesOn = true;
            while (goesOn) {
                try {
                    Call call = next(this);
                    goesOn = call != null;
                    if (goesOn) {
                        call.run(fiber);
                    }
                } catch (OutOfMemoryError noRoom) { // waiting for work needs memory
                    LockSupport.parkNanos(LOOK_AGAIN_NANOS);
                }
            }
        }
    }

    /** One piece of work. It is the cancellation scope that a cancellation of the caller cancels. */
    public final class Call extends CancellationScope {
        private final Callable<?> work;
        private final Object context;
        private final Environment environment;
        private final Latch ended = new Latch();

        /** The fiber that waits for the end of the work. */
        final Fiber caller;

        /** The scope that the caller works in, or null. */
        final Scope scope;

        /** The instant at which the caller's present work is cancelled. */
        final long deadline;

        // Guarded by its lock.
        private boolean begun;
        private boolean over;
        private boolean cancelled;

        // Written by the thread before the latch opens, read after it.
        private Object value;
        private Throwable error;

        Call(Callable<?> work, Fiber caller) {
            this.work = work;
            this.caller = caller;
            this.context = caller.outgoing();
            this.environment = caller.environment();
            this.scope = Scope.enclosing(caller);
            this.deadline = Scope.deadlineOf(caller);
        }

        private synchronized boolean begin(Fiber on) {
            if (over) {
                return false;
            }
            begun = true;
            on.enter(this);
            return true;
        }

        private synchronized void finish() {
            over = true;
        }

        /** The thread that does the work now, or null. */
        public synchronized Thread worker() {
            return begun && !over ? fiber().get() : null;
        }

        private void run(Fiber on) {
            if (!begin(on)) {
                return;
            }
            Object before = on.enterContext(context);
            try {
                value = work.call();
            } catch (Throwable t) {
                error = t;
            }
            on.leaveContext(before);
            finish();
            on.leave();
            Thread.interrupted(); // an interrupt that the work sent to itself must not reach the next work
            ended.release();
        }

        private synchronized void cancel(Throwable why) {
            if (over || cancelled) {
                return;
            }
            cancelled = true;
            if (begun) {
                cancelWith(new Cause.Cancel(why instanceof Cancelled c ? c.why() : why));
            } else {
                over = true;
                unqueue(this);
                ended.release();
            }
        }

        private void addFailureTo(Throwable why) {
            if (error != null && !(error instanceof Cancelled || error instanceof Exit || error instanceof InterruptedException)) {
                why.addSuppressed(error);
            }
        }

        private Object outcome() throws Throwable {
            if (error != null) {
                throw error;
            }
            return value;
        }

        @Override
        public synchronized String toString() {
            return "#<Offload of " + work.getClass().getName() + (begun ? " on " + fiber().get() : ", queued") + ">";
        }
    }
}
