package magnetar.kernel.scope;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.ReentrantLock;
import magnetar.kernel.fiber.Cause;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.fiber.Region;
import magnetar.kernel.fiber.StackRoom;
import magnetar.kernel.park.Gate;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.Wait;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.report.Failures;
import magnetar.kernel.sched.Fault;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Timer;
import magnetar.kernel.time.Waits;
import magnetar.kernel.time.Wheel;

/**
 * Owns the forks that were started in it, and does not end before they have.
 *
 * <p>Use, by the thread that owns it: {@link #open}, forks, {@link #join}, {@link #cancel} if something went wrong, {@link #close}.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A fork is in the list from before its fiber begins until after it has left the list of fibers. CLOSED implies an empty list.
 *   <li>Cancelling happens once. It writes the cause of the region and of each fork in the list before it interrupts; a fork that is
 *       added later finds the scope cancelled and is refused.
 *   <li>No interrupt is sent to the owner after CLOSED; the one that came with the cancellation is withdrawn by closing.
 *   <li>Scopes of one fiber nest. Cancelling an outer one reaches the forks of an inner one through its owner, which it dooms: the
 *       inner scope then cancels its own. So a shield of the owner shields what it waits for.
 * </ol>
 *
 * <p>Source: Trio's nurseries, the JDK's StructuredTaskScope. Differences from the latter: no preview flag; a failing fork also interrupts
 * the owner where it waits, so that a body that waits for something else does not wait in vain; the interrupt is withdrawn.
 *
 * <p>Lock order: the scope's lock is a leaf, but for the joiner, which is called under it and must not call the scope.
 */
public final class Scope extends Region {
    /** How long a fork may go on after its cancellation before it is named, unless the owner says otherwise. */
    public static final long PATIENCE_NANOS = 5_000_000_000L;

    private static final LongAdder ALIVE = new LongAdder();

    private enum State {
        OPEN,
        CANCELLED,
        ENDING,
        CLOSED
    }

    private final String site;
    private final Joiner joiner;
    private final ReentrantLock lock = new ReentrantLock();
    private final Fiber owner;
    private final Fiber caller; // who waits for the owner, if that does offloaded work
    private final Scope outer;
    private final long deadline;

    // Set by the owner before the first fork: the face's own.
    private Object attachment;
    private long patience = PATIENCE_NANOS;

    // Guarded by the lock.
    private State state = State.OPEN;
    private Object why;
    private boolean cancelsForks; // taken back without the lock: to cancel a fork again does nothing
    private Fork first;
    private int awaited;
    private int listed;
    private Gate idle;
    private ArrayDeque<Runnable> exits;

    // Only accessed by the owner.
    private Timer alarm;
    private boolean holds;

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
     * @param nanos after which it is cancelled; an enclosing scope's deadline counts as well, unless a shield masks it
     */
    public static Scope open(String site, Joiner joiner, long nanos) {
        Fiber owner = Fiber.current();
        owner.check();
        long own = Durations.deadline(owner.world().nanoTime(), nanos);
        Scope scope = new Scope(site, joiner, owner, own);
        scope.holds = owner.hold();
        owner.enterRegion(scope);
        ALIVE.increment();
        if (nanos <= 0) {
            scope.cancel(DEADLINE);
        } else if (own != Durations.INFINITE) {
            scope.alarm = scope.new Alarm(own);
            Wheel.of(owner.world()).add(scope.alarm);
        }
        return scope;
    }

    private static long earlier(long a, long b) {
        return a == Durations.INFINITE || b != Durations.INFINITE && b - a < 0 ? b : a;
    }

    /**
     * The innermost scope that this, the current, fiber is in: one that it owns, or that whoever offloaded its work is in, or the one that
     * owns it; or null.
     */
    public static Scope enclosing(Fiber fiber) {
        Object region = fiber.region();
        if (region instanceof Scope s) {
            return s;
        }
        return region instanceof Offload.Call c ? c.scope : fiber.home() instanceof Scope s ? s : null;
    }

    /** The instant at which what this, the current, fiber does now is cancelled; {@link Durations#INFINITE} for never, as in a shield. */
    public static long deadlineOf(Fiber fiber) {
        if (fiber.isShielded()) {
            return Durations.INFINITE;
        }
        if (fiber.region() instanceof Offload.Call c) {
            return c.deadline;
        }
        Scope s = enclosing(fiber);
        return s == null ? Durations.INFINITE : s.deadline;
    }

    /** How many scopes have not ended. */
    public static long alive() {
        return ALIVE.sum();
    }

    /** The source line that opened it. */
    public String site() {
        return site;
    }

    /** The instant at which it is cancelled, on the clock of its world; {@link Durations#INFINITE} for never. */
    public long deadline() {
        return deadline;
    }

    /** What the owner attached. */
    public Object attachment() {
        return attachment;
    }

    /** Attaches something of the owner's. */
    public void attach(Object thing) {
        attachment = thing;
    }

    /** Sets how many nanoseconds a fork may go on after its cancellation before it is named. */
    public void setPatience(long nanos) {
        patience = nanos;
    }

    /** True if this, the current, fiber may fork here: the owner, and fibers that the scope owns, also through scopes that lie inside it. */
    public boolean admits(Fiber fiber) {
        Scope s = enclosing(fiber);
        while (s != null && s != this) {
            s = s.outer;
        }
        return s == this;
    }

    /** Who waits for the work that was offloaded to this, the current, fiber; null if nobody. */
    private static Fiber callerOf(Fiber fiber) {
        Object region = fiber.region();
        return region instanceof Scope s ? s.caller : region instanceof Offload.Call c ? c.caller : null;
    }

    /** True if the fiber waits for the other, the current, one: it owns a scope that that works in, or has offloaded what it does. */
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
        return read() == State.CLOSED;
    }

    /** True once it was cancelled, for whatever reason. */
    public boolean isCancelled() {
        return cause() != null;
    }

    private State read() {
        lock.lock();
        try {
            return state;
        } finally {
            lock.unlock();
        }
    }

    /** Runs the clean-up when all forks have ended, the last one that was added first. False if the scope has ended. */
    public boolean onExit(Runnable cleanUp) {
        StackRoom.touch();
        lock.lock();
        try {
            if (state == State.CLOSED) {
                return false;
            }
            if (exits == null) {
                exits = new ArrayDeque<>();
            }
            exits.push(cleanUp);
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** Why it was cancelled, or null. */
    public Object why() {
        return why;
    }

    /** Starts a fork; null if the scope does not take any more. */
    public Fork fork(String name, boolean daemon, Callable<?> work) {
        StackRoom.touch();
        Fork fork = new Fork(this, name, daemon);
        fork.prepare(work);
        if (add(fork)) {
            Fibers.begin(fork.fiber());
            return fork;
        }
        Fibers.discard(fork.fiber());
        return null;
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

    /** Called by each fork as its very last act. */
    void ended(Fork fork) {
        boolean stop;
        Gate nowIdle = null;
        lock.lock();
        try {
            remove(fork);
            stop = decides(fork) && state == State.OPEN;
            if (idle != null && (state == State.CANCELLED ? listed : awaited) == 0) {
                nowIdle = idle;
            }
        } finally {
            lock.unlock();
        }
        if (stop) {
            cancel(fork);
        }
        if (nowIdle != null) {
            nowIdle.open();
        }
    }

    /** Asks the joiner. One that fails ends the scope, and is reported: the gates have to open all the same. */
    private boolean decides(Fork fork) {
        try {
            return joiner.ended(fork);
        } catch (Throwable t) {
            Failures.report(site, Thread.currentThread(), t);
            return true;
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
        listed--;
        awaited -= fork.isDaemon() ? 0 : 1;
    }

    /** Cancels the scope: its body and all its forks. The first call counts. */
    public void cancel(Object reason) {
        StackRoom.touch();
        List<Fork> doomed;
        lock.lock();
        try {
            if (state != State.OPEN && !(state == State.CANCELLED && cancelsForks)) {
                return;
            }
            doomed = forks();
            Cause cause = new Cause.Cancel(reason);
            if (state == State.OPEN) {
                cancelsForks = true; // until all are told: if memory ends before, the timer of a deadline comes again
                state = State.CANCELLED;
                why = reason;
                doomRegion(cause);
            }
        } finally {
            lock.unlock();
        }
        for (Fork f : doomed) {
            f.cancel(reason);
        }
        cancelsForks = false;
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
     * Waits, as the owner, until the forks that are no daemons have ended.
     *
     * @throws InterruptedException if the owner was interrupted by somebody else
     */
    public void join() throws InterruptedException {
        Gate gate = gate(false);
        if (gate != null) {
            Waits.await(gate, WaitReason.SCOPE_JOIN, this, Durations.INFINITE);
        }
        owner.check();
    }

    /** A gate that opens when there are no forks to wait for; null if there are none now. */
    private Gate gate(boolean daemonsToo) {
        lock.lock();
        try {
            idle = (daemonsToo ? listed : awaited) == 0 || Fault.SCOPE_ENDS_BEFORE_ITS_FORKS.isPlanted() ? null : new Gate();
            return idle;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Ends the scope, as the owner: cancels what is left, waits until it has ended however long that takes, runs the clean-ups, and
     * withdraws the interrupt. A fork that goes on for longer than the scope's patience is named through the failure hook.
     *
     * @return what the clean-ups threw
     */
    public List<Throwable> close() {
        List<Throwable> thrown = new ArrayList<>();
        if (!endIfIdle()) {
            cancel("its scope has ended");
        }
        owner.shield(new Ending(thrown));
        if (alarm != null) {
            Wheel.of(owner.world()).cancel(alarm);
        }
        owner.leaveRegion();
        ALIVE.decrement();
        if (holds) {
            owner.release();
        }
        return thrown;
    }

    /** Waits until all has ended, and runs the clean-ups. */
    private final class Ending implements Runnable {
        private final List<Throwable> thrown;

        Ending(List<Throwable> thrown) {
            this.thrown = thrown;
        }

        @Override
        public void run() {
            awaitEnd();
            for (Runnable r = nextExit(); r != null; r = nextExit()) {
                Scope.run(r, thrown);
            }
        }
    }

    /** Takes no forks any more, if there are none: the clean-ups may not start one. */
    private boolean endIfIdle() {
        lock.lock();
        try {
            if (listed == 0 && state == State.OPEN) {
                state = State.ENDING;
            }
            return listed == 0;
        } finally {
            lock.unlock();
        }
    }

    /** The next clean-up; null if there is none, and then the scope is closed. */
    private Runnable nextExit() {
        lock.lock();
        try {
            Runnable next = exits == null ? null : exits.poll();
            state = next == null ? State.CLOSED : state;
            return next;
        } finally {
            lock.unlock();
        }
    }

    private static void run(Runnable cleanUp, List<Throwable> thrown) {
        try {
            cleanUp.run();
        } catch (Throwable t) {
            thrown.add(t);
        }
    }

    private void awaitEnd() {
        boolean interrupted = false;
        boolean named = false;
        for (Gate gate = gate(true); gate != null; gate = gate(true)) {
            try {
                if (!Waits.await(gate, WaitReason.SCOPE_JOIN, this, named ? Durations.INFINITE : patience)) {
                    named = true;
                    for (Fork fork : live()) {
                        name(fork);
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

    private void name(Fork fork) {
        Thread thread = worker(fork.fiber().get());
        Stuck stuck = new Stuck(fork.site() + " does not end: it was cancelled " + patience / 1_000_000
                + " ms ago, and the " + site + " waits for it. It has to return, or to let the interrupt through.");
        if (thread != null) {
            stuck.setStackTrace(thread.getStackTrace());
            Failures.notice(site, thread, stuck);
        }
    }

    /** Who does what the thread does: the thread that it has offloaded its work to, else the thread itself. */
    private static Thread worker(Thread thread) {
        if (thread != null && Parked.waitOf(thread) instanceof Wait w && w.on() instanceof Offload.Call c && c.worker() != null) {
            return c.worker();
        }
        return thread;
    }

    /** A fork that does not react to its cancellation; the stack is the fork's, or that of the thread it has offloaded its work to. */
    public static final class Stuck extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Stuck(String message) {
            super(message);
        }
    }

    /** What {@link #why} answers when the deadline was the reason. */
    public static final Object DEADLINE = new Object() {
        @Override
        public String toString() {
            return "its deadline has passed";
        }
    };

    /** The timer of the deadline. */
    private final class Alarm extends Timer {
        Alarm(long dueNanos) {
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
