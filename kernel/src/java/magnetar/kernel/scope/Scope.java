package magnetar.kernel.scope;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.ReentrantLock;
import magnetar.kernel.fiber.CancellationScope;
import magnetar.kernel.fiber.Cause;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.fiber.StackRoom;
import magnetar.kernel.park.Latch;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitInfo;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.report.Failures;
import magnetar.kernel.report.Telemetry;
import magnetar.kernel.sched.Fault;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Timer;
import magnetar.kernel.time.Waits;
import magnetar.kernel.time.Wheel;

/**
 * Owns the forks that were started in it, and does not end before they have.
 *
 * <p>Its owner calls: {@link #open}, then {@link #fork}, then {@link #join}, {@link #cancel} if something
 * failed, and {@link #end} or {@link #close}.
 *
 * <pre>{@code
 * try (Scope scope = Scope.open("prices", fork -> fork.error() != null, Long.MAX_VALUE)) {
 *     Fork first = scope.fork("first", false, () -> price("first"));
 *     Fork second = scope.fork("second", false, () -> price("second"));
 *     scope.join();
 *     return List.of(first.value(), second.value());
 * }
 * }</pre>
 *
 * <p>Invariants:
 * <ol>
 *   <li>A fork is in the list from before its fiber begins until after that fiber has left the list of
 *       fibers. If the fiber cannot be started, the fork leaves the list and the error is thrown. A CLOSED
 *       scope has an empty list.
 *   <li>A scope is cancelled once. The owner, and then each fork in the list, gets its cause before its own
 *       interrupt. A fork that is added later finds the scope cancelled and is refused.
 *   <li>No interrupt is sent to the owner after CLOSED. Closing withdraws the interrupt that came with the
 *       cancellation.
 *   <li>Scopes of one fiber nest. Cancelling an outer scope interrupts the owner of the inner one, which then
 *       cancels its own forks. So a shield of the owner also protects the forks that it waits for.
 * </ol>
 *
 * <p>Source: Trio's nurseries, the JDK's StructuredTaskScope. Differences from the latter: no preview flag; a
 * failing fork also interrupts the waiting owner, because its body may wait for a result that will not come;
 * the interrupt is withdrawn.
 *
 * <p>Lock order: the scope's lock, then the owner as a monitor, a shard of the list of fibers, the wheel's: a
 * cancellation may start the function of an {@link OnCancel} under it. The joiner is called under it, and must
 * neither wait nor call the scope. Rejected: a Java monitor as the lock, which makes 500,000 forks take twice as
 * long when two cores meet at it.
 */
public final class Scope extends CancellationScope implements AutoCloseable {
    /**
     * How long a fork may run after its cancellation before it is reported, unless the owner sets another
     * time.
     */
    public static final long PATIENCE_NANOS = 5_000_000_000L;

    private static final LongAdder ALIVE = new LongAdder();

    private enum State {
        OPEN,
        CANCELLED,
        CLEANING_UP, // only a scope that was not cancelled
        CLOSED
    }

    private final String site;
    private final Joiner joiner;
    private final ReentrantLock lock = new ReentrantLock();
    private final Fiber owner;
    private final Fiber caller; // if the owner does offloaded work: the fiber that waits for it
    private final Scope outer;
    private final long deadline;

    // Set by the owner before the first fork: a value of the Clojure API.
    private Object attachment;
    private long patience = PATIENCE_NANOS;

    // Written under the lock, before the cause. Read once the cause was seen.
    private Object why;

    // Written under the lock, read by any thread.
    private volatile State state = State.OPEN;

    // Guarded by the lock.
    private boolean cancelsForks; // cleared without the lock: cancelling a fork again does nothing
    private Fork first;
    private int awaited;
    private int listed;
    private Latch joinLatch;
    private ArrayDeque<Runnable> cleanUps;

    // Only accessed by the owner.
    private Timer deadlineTimer;
    private boolean keepsOwnerReachable;

    private Scope(String site, Joiner joiner, Fiber owner, long own) {
        this.site = site;
        this.joiner = joiner;
        this.owner = owner;
        this.caller = callerOf(owner);
        this.outer = enclosing(owner);
        this.deadline = earlier(own, deadlineOf(owner));
    }

    /**
     * Opens a scope that the current fiber owns.
     *
     * @param site the source line that opens it, for messages
     * @param joiner asked about each fork that has ended; true cancels the others
     * @param nanos after how many nanoseconds it is cancelled, {@link Long#MAX_VALUE} for never; a scope with
     *     0 or less is cancelled from the beginning. An enclosing scope's deadline applies as well, unless a
     *     shield masks it
     */
    public static Scope open(String site, Joiner joiner, long nanos) {
        Fiber owner = Fiber.current();
        owner.check();
        long own = Durations.deadline(owner.environment().nanoTime(), nanos);
        Scope scope = new Scope(site, joiner, owner, own);
        scope.keepsOwnerReachable = owner.hold();
        owner.enter(scope);
        ALIVE.increment();
        if (nanos <= 0) {
            scope.cancel(DEADLINE);
        } else if (own != Durations.INFINITE) {
            scope.deadlineTimer = scope.new Deadline(own);
            Wheel.of(owner.environment()).add(scope.deadlineTimer);
        }
        return scope;
    }

    private static long earlier(long a, long b) {
        return a == Durations.INFINITE || b != Durations.INFINITE && b - a < 0 ? b : a;
    }

    /**
     * The innermost scope of this fiber, which is the current one; or null. That is a scope that it owns, the
     * scope around the work that it does for an offloading fiber, or the scope that owns it.
     */
    public static Scope enclosing(Fiber fiber) {
        Object innermost = fiber.cancellationScope();
        if (innermost instanceof Scope s) {
            return s;
        }
        return innermost instanceof Offload.Call c ? c.scope : fiber.home() instanceof Scope s ? s : null;
    }

    /**
     * The instant at which the present work of this fiber is cancelled; {@link Long#MAX_VALUE} for never, as
     * in a shield. The fiber is the current one, or one that waits and is inspected.
     */
    public static long deadlineOf(Fiber fiber) {
        if (fiber.isShielded()) {
            return Durations.INFINITE;
        }
        if (fiber.cancellationScope() instanceof Offload.Call c) {
            return c.deadline;
        }
        Scope s = enclosing(fiber);
        return s == null ? Durations.INFINITE : s.deadline;
    }

    /** The number of scopes that have not ended. */
    public static long alive() {
        return ALIVE.sum();
    }

    /** The source line that opened it. */
    public String site() {
        return site;
    }

    /** The thread of its owner; null if that was collected. */
    public Thread ownerThread() {
        return owner.get();
    }

    /**
     * The instant at which it is cancelled, in nanoseconds on the clock of its environment;
     * {@link Long#MAX_VALUE} for never.
     */
    public long deadline() {
        return deadline;
    }

    /** The value that the owner attached. */
    public Object attachment() {
        return attachment;
    }

    /** Attaches a value. Called by the owner. */
    public void attach(Object thing) {
        attachment = thing;
    }

    /** Sets for how many nanoseconds a fork may run after its cancellation before it is reported. */
    public void setPatience(long nanos) {
        patience = nanos;
    }

    /**
     * True if this fiber, the current one, may fork here: the owner, and fibers that this scope or a scope
     * inside it owns.
     */
    public boolean admits(Fiber fiber) {
        Scope s = enclosing(fiber);
        while (s != null && s != this) {
            s = s.outer;
        }
        return s == this;
    }

    /** The fiber that waits for the work offloaded to this fiber, which is the current one; or null. */
    private static Fiber callerOf(Fiber fiber) {
        Object innermost = fiber.cancellationScope();
        return innermost instanceof Scope s ? s.caller : innermost instanceof Offload.Call c ? c.caller : null;
    }

    /**
     * True if the fiber waits for the other one, the current one: it owns a scope around the other's work, or
     * has offloaded that work.
     */
    static boolean waitsFor(Fiber fiber, Fiber other) {
        if (callerOf(other) == fiber) {
            return true;
        }
        Scope s = enclosing(other);
        while (s != null && s.owner != fiber && s.caller != fiber) {
            s = s.outer;
        }
        return s != null;
    }

    /** True once it has ended. */
    public boolean isClosed() {
        return state == State.CLOSED;
    }

    /** True once it was cancelled, for whatever reason. */
    public boolean isCancelled() {
        return cause() != null;
    }

    /**
     * Adds a clean-up, which runs when all forks have ended. The one added last runs first. False if the
     * scope has ended.
     */
    public boolean onExit(Runnable cleanUp) {
        StackRoom.touch();
        lock.lock();
        try {
            if (state == State.CLOSED) {
                return false;
            }
            if (cleanUps == null) {
                cleanUps = new ArrayDeque<>();
            }
            cleanUps.push(cleanUp);
            return true;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Why it was cancelled, or null: the reason that was given, the fork that ended it for the joiner,
     * {@link #DEADLINE}, or a text if it ended first.
     */
    public Object why() {
        return why;
    }

    /**
     * Starts a fork; null if the scope accepts no more forks. The caller ensures that the scope
     * {@link #admits} the current fiber.
     *
     * @param daemon true if the scope does not wait for the fork, and cancels it at its end
     */
    public Fork fork(String name, boolean daemon, Callable<?> work) {
        StackRoom.touch();
        Fork fork = new Fork(this, name, daemon);
        fork.prepare(work);
        if (add(fork)) {
            begin(fork);
            return fork;
        }
        Fibers.discard(fork.fiber());
        return null;
    }

    private void begin(Fork fork) {
        try {
            Fibers.begin(fork.fiber());
        } catch (Throwable t) {
            unlist(fork);
            fork.neverBegan(t);
            throw t;
        }
    }

    private boolean add(Fork fork) {
        lock.lock();
        try {
            if (state != State.OPEN) {
                return false;
            }
            fork.next = first;
            if (first != null) {
                first.previous = fork;
            }
            first = fork;
            listed++;
            awaited += fork.isDaemon() ? 0 : 1;
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** Called by each fork as its last action. */
    void ended(Fork fork) {
        boolean stop;
        Throwable thrown = null;
        Latch nowIdle;
        lock.lock();
        try {
            remove(fork);
            boolean decided;
            try {
                decided = joiner.ended(fork);
            } catch (Throwable t) {
                thrown = t;
                decided = true; // the latches have to open in any case
            }
            stop = decided && state == State.OPEN;
            nowIdle = latchIfIdle();
        } finally {
            lock.unlock();
        }
        if (thrown != null) {
            Failures.report(site, Thread.currentThread(), thrown);
        }
        if (stop) {
            cancel(fork);
        }
        release(nowIdle);
    }

    /** Removes a fork whose fiber could not be started. The joiner does not learn of it. */
    private void unlist(Fork fork) {
        Latch nowIdle;
        lock.lock();
        try {
            remove(fork);
            nowIdle = latchIfIdle();
        } finally {
            lock.unlock();
        }
        release(nowIdle);
    }

    /**
     * Under the lock: the latch that the owner waits for, if there is no more fork to wait for; else null.
     */
    private Latch latchIfIdle() {
        return joinLatch != null && (state == State.CANCELLED ? listed : awaited) == 0 ? joinLatch : null;
    }

    private static void release(Latch latch) {
        if (latch != null) {
            latch.release();
        }
    }

    private void remove(Fork fork) {
        if (fork.previous == null) {
            first = fork.next;
        } else {
            fork.previous.next = fork.next;
        }
        if (fork.next != null) {
            fork.next.previous = fork.previous;
        }
        fork.previous = null; // an ended fork must not keep others, with their values, from being collected
        fork.next = null;
        listed--;
        awaited -= fork.isDaemon() ? 0 : 1;
    }

    /** Cancels the scope: its body and all its forks. Only the first call has an effect. */
    public void cancel(Object reason) {
        StackRoom.touch();
        List<Fork> cancelled;
        boolean isFirst;
        lock.lock();
        try {
            isFirst = state == State.OPEN;
            if (!isFirst && !(state == State.CANCELLED && cancelsForks)) {
                return;
            }
            cancelled = forks();
            Cause cause = new Cause.Cancel(reason);
            if (isFirst) {
                cancelsForks = true; // until all are cancelled: without memory a deadline tries again
                state = State.CANCELLED;
                why = reason;
                cancelWith(cause);
            }
        } finally {
            lock.unlock();
        }
        if (isFirst && reason == DEADLINE && Telemetry.isOn()) {
            Telemetry.scopeTimedOut(this);
        }
        for (Fork f : cancelled) {
            f.cancel(reason);
        }
        cancelsForks = false;
    }

    /** True if it waits for all forks, unless one fails. */
    public boolean needsAll() {
        return joiner.needsAll();
    }

    /** The forks that have not ended. */
    public List<Fork> live() {
        lock.lock();
        try {
            return forks();
        } finally {
            lock.unlock();
        }
    }

    private List<Fork> forks() {
        List<Fork> all = new ArrayList<>(listed);
        for (Fork f = first; f != null; f = f.next) {
            all.add(f);
        }
        return all;
    }

    /**
     * Waits until the forks that are not daemons have ended. Called by the owner. A failure of a fork is not
     * thrown: see {@link Fork#error}.
     *
     * @throws InterruptedException if the owner was interrupted without a cause
     * @throws magnetar.kernel.fiber.Cancelled if the scope was cancelled, also if the joiner ended it after a
     *     success
     */
    public void join() throws InterruptedException {
        Latch latch = latch(false);
        if (latch != null) {
            Waits.await(latch, WaitReason.SCOPE_JOIN, this, Durations.INFINITE);
        }
        owner.check();
    }

    /** A latch that opens when there are no more forks to wait for; null if that is so now. */
    private Latch latch(boolean daemonsToo) {
        lock.lock();
        try {
            joinLatch = (daemonsToo ? listed : awaited) == 0 || Fault.SCOPE_ENDS_BEFORE_ITS_FORKS.isSeeded() ? null : new Latch();
            return joinLatch;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Ends the scope. Cancels the remaining forks, waits for their end however long that takes, runs the
     * clean-ups, and withdraws the interrupt. A fork that runs for longer than the scope's patience is
     * reported to the failure hook. Called by the owner.
     *
     * @return what the clean-ups threw
     */
    public List<Throwable> end() {
        List<Throwable> thrown = new ArrayList<>();
        if (!endIfIdle()) {
            cancel("its scope has ended");
        }
        owner.shield(new Ending(thrown));
        if (deadlineTimer != null) {
            Wheel.of(owner.environment()).cancel(deadlineTimer);
        }
        owner.leave();
        ALIVE.decrement();
        if (keepsOwnerReachable) {
            owner.release();
        }
        return thrown;
    }

    /**
     * Ends the scope, as {@link #end} does. Throws the first error of the clean-ups, with the others
     * suppressed.
     */
    @Override
    public void close() {
        List<Throwable> thrown = end();
        if (!thrown.isEmpty()) {
            Throwable first = thrown.getFirst();
            thrown.stream().skip(1).forEach(first::addSuppressed);
            Scope.<RuntimeException>raise(first);
        }
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> void raise(Throwable t) throws E {
        throw (E) t;
    }

    /** Waits for the end of all forks, and runs the clean-ups. */
    private final class Ending implements Runnable {
        private final List<Throwable> thrown;

        Ending(List<Throwable> thrown) {
            this.thrown = thrown;
        }

        @Override
        public void run() {
            awaitEnd();
            for (Runnable r = nextExit(); r != null; r = nextExit()) {
                run(r);
            }
        }

        private void run(Runnable cleanUp) {
            try {
                owner.shieldFromInterrupts(cleanUp);
            } catch (Throwable t) {
                thrown.add(t);
            }
        }
    }

    /** If no fork is left, refuses forks from now on, because a clean-up must not start one. */
    private boolean endIfIdle() {
        lock.lock();
        try {
            if (listed == 0 && state == State.OPEN) {
                state = State.CLEANING_UP;
            }
            return listed == 0;
        } finally {
            lock.unlock();
        }
    }

    /** The next clean-up; null if all have run, which closes the scope. */
    private Runnable nextExit() {
        lock.lock();
        try {
            Runnable next = cleanUps == null ? null : cleanUps.poll();
            state = next == null ? State.CLOSED : state;
            return next;
        } finally {
            lock.unlock();
        }
    }

    private void awaitEnd() {
        boolean interrupted = false;
        boolean reported = false;
        for (Latch latch = latch(true); latch != null; latch = latch(true)) {
            try {
                if (!Waits.await(latch, WaitReason.SCOPE_JOIN, this, reported ? Durations.INFINITE : patience)) {
                    reported = true;
                    for (Fork fork : live()) {
                        reportStuck(fork);
                    }
                }
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void reportStuck(Fork fork) {
        Fiber fiber = fork.fiber();
        if (fiber == null) {
            return; // it has just ended
        }
        Thread thread = worker(fiber.get());
        Stuck stuck = new Stuck(fork.site() + " does not end: it was cancelled " + patience / 1_000_000
                + " ms ago, and the " + site + " waits for it. It has to return, or to let the interrupt through.");
        if (thread != null) {
            stuck.setStackTrace(thread.getStackTrace());
            Failures.notice(site, thread, stuck);
        }
    }

    /** The thread that does this thread's work: the one that it offloaded its work to, else itself. */
    private static Thread worker(Thread thread) {
        if (thread != null && Parked.waitOf(thread) instanceof WaitInfo w && w.on() instanceof Offload.Call c && c.worker() != null) {
            return c.worker();
        }
        return thread;
    }

    /**
     * A fork that does not end after its cancellation. The stack shows the fork's thread, or the thread that
     * it offloaded its work to.
     */
    public static final class Stuck extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Stuck(String message) {
            super(message);
        }
    }

    /** The result of {@link #why} if the deadline was the reason. */
    public static final Object DEADLINE = new Object() {
        @Override
        public String toString() {
            return "its deadline has passed";
        }
    };

    /** The timer of the deadline. */
    private final class Deadline extends Timer {
        Deadline(long dueNanos) {
            super(dueNanos);
        }

        @Override
        protected void expire() {
            cancel(DEADLINE);
        }
    }

    @Override
    public String toString() {
        return "#<Scope " + site + ">";
    }
}
