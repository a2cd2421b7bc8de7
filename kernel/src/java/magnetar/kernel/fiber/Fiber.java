package magnetar.kernel.fiber;

import java.lang.Thread.UncaughtExceptionHandler;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.WeakReference;
import java.util.ArrayDeque;
import magnetar.kernel.report.Failures;
import magnetar.kernel.sched.Fault;
import magnetar.kernel.sched.Schedulable;
import magnetar.kernel.sched.SchedulerMonitor;
import magnetar.kernel.sched.Schedulers;

/**
 * The kernel's record of one thread: its environment, its cause to end, its budget, its random numbers.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The cause is written before the thread is interrupted, at most once, and never removed. Only a kill
 *       may replace another cause. {@link #check} throws it again each time.
 *   <li>A fiber is found through its thread, as the thread's uncaught-exception handler. That costs no search
 *       and no entry in a thread-local map. If a program sets a handler of its own in the fiber, the slow
 *       path searches the registry once and then uses a thread-local.
 *   <li>A fiber refers to its thread weakly unless it is {@link #hold held}. So a go block that is parked on
 *       unreachable channels is collected, with its fiber. A fiber that owns a scope is held, because
 *       deadline and clean-ups must run.
 * </ol>
 *
 * <p>There may be a million fibers, of 96 bytes each. One more field costs each of them 8 bytes.
 *
 * <p>Rejected: a {@code ScopedValue} for identity (0.3 to 0.6 kB per parked thread), a {@code ThreadLocal}
 * (0.25 kB).
 */
public final class Fiber extends WeakReference<Thread> implements Failures.Handler, Schedulable {
    /** Kernel operations that a fiber may do without parking before it lets others run. */
    public static final int BUDGET = 1000;

    /** The shard of a fiber that is not in the list of fibers. */
    static final byte UNLISTED = -1;
    private static final byte LOST = -2; // unlisted too, because it was collected

    private static final int STEP_ASIDE = 16;
    private static final int RESUMPTIONS_BETWEEN_CHECKS = 64;
    private static final int ID_BLOCK = 256;
    private static final int CALLBACK_DEPTH = 64;
    private static final int AGE_UNIT = 27; // binary digits of nanoseconds, about 134 ms; an int of them wraps after 18 years
    private static final ThreadLocal<Fiber> SLOW = new ThreadLocal<>();
    private static final VarHandle CAUSE;

    static {
        try {
            CAUSE = MethodHandles.lookup().findVarHandle(Fiber.class, "cause", Cause.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final Environment environment;

    // Set or read by any thread.
    private volatile Cause cause;

    // Where it is in the list of fibers, guarded by the shard.
    int place;
    byte shard; // its number, or negative: UNLISTED or LOST

    // Set by the starter or the owner thread, cleared by the fiber at its end. Keeps the thread reachable.
    Thread held;

    // Set by the starter, then only accessed by the owner thread.
    private Object context;
    private Object home;

    // The rest is only accessed by the owner thread.
    private CancellationScope innermost;
    private short budget = BUDGET;
    private int shields;
    private CancellationScope masked; // by the innermost shield: this scope and its outer ones
    private boolean interruptLater;
    private byte yields;
    private byte resumptions; // since it checked the scheduler monitor
    private boolean handedOver; // its carrier, since it last parked
    private long random;
    private long nextId;
    private byte depth;
    private RareState rare;
    private final int madeAt; // in units of AGE_UNIT, and wraps; an int fits into the object without making it larger

    /** The fields of a fiber that most fibers never set. */
    private static final class RareState {
        private ArrayDeque<Runnable> later;
        private WeakReference<Object[]> copied; // the source of a copy, and the copy
        private BeforeInterrupt beforeInterrupt; // the innermost one; guarded by the fiber's monitor
    }

    Fiber(Thread thread, Environment environment) {
        super(thread, Fibers.COLLECTED);
        this.shard = UNLISTED;
        this.environment = environment;
        this.random = environment.seed() | 1;
        this.madeAt = (int) (environment.coarseNanos() >> AGE_UNIT);
    }

    /** Called when it was collected before its body had ended, and has left the list. */
    synchronized void lose() {
        shard = LOST;
    }

    /** True if it was collected before its body had ended: nothing could reach what it waited for. */
    public boolean isLost() {
        Fibers.forgetCollected(); // first, since it locks other fibers
        synchronized (this) {
            return shard == LOST;
        }
    }

    /** How long ago the kernel started it, in nanoseconds, to a little more than a tenth of a second. */
    public long ageNanos() {
        return Integer.toUnsignedLong((int) (environment.nanoTime() >> AGE_UNIT) - madeAt) << AGE_UNIT;
    }

    /**
     * Takes the {@link #outgoing} context of the fiber that starts this one, and the scope that owns it. The
     * thread-locals in it are put in place when the body {@link #begins}.
     */
    Fiber inherit(Object outgoing, Object owner) {
        context = outgoing;
        home = owner;
        return this;
    }

    /**
     * The fiber of the current thread. A thread that the kernel did not start gets one at its first
     * operation.
     */
    public static Fiber current() {
        Thread t = Thread.currentThread();
        UncaughtExceptionHandler h = t.getUncaughtExceptionHandler();
        return h instanceof Fiber f && f.refersTo(t) ? f : currentSlow(t, h);
    }

    private static Fiber currentSlow(Thread t, UncaughtExceptionHandler set) {
        Fiber f = SLOW.get();
        if (f == null) {
            // A thread without a handler of its own was not started here.
            f = set instanceof ThreadGroup ? null : Fibers.find(t);
            SLOW.set(f == null ? f = new Fiber(t, Environment.REAL) : f);
        }
        return f;
    }

    /** The clock, random source and scheduler of this fiber. */
    public Environment environment() {
        return environment;
    }

    /**
     * The context values of this fiber: an immutable map made by the Clojure API, or null if it has no
     * values.
     */
    public Object context() {
        return context;
    }

    /** Replaces the context values. The caller restores the former ones. */
    public void setContext(Object values) {
        context = values;
    }

    /**
     * The context of what this fiber, the current one, starts or sends: its context values, with thread-locals
     * if {@link Propagation} is on.
     */
    public Object outgoing() {
        return Propagation.capture(context);
    }

    /** Called on the new thread before its body. */
    void begins() {
        if (context != null) {
            takeUp(context);
        }
    }

    /** Takes an {@link #outgoing} context up for good. For a thread that has done no other work yet. */
    public void takeUp(Object outgoing) {
        context = outgoing;
        if (outgoing instanceof Propagation.Captured c) {
            context = Propagation.takeUp(c);
        }
    }

    /**
     * Puts an {@link #outgoing} context in place of the present one. Returns what {@link #leaveContext} wants.
     */
    public Object enterContext(Object outgoing) {
        Object before = Propagation.enter(context, outgoing);
        context = Propagation.valuesOf(outgoing);
        return before;
    }

    /** Begins work after which {@link #leaveContext} restores the present context. */
    public Object keepContext() {
        return Propagation.keep(context);
    }

    /** Restores the context that this fiber had before it entered another. */
    public void leaveContext(Object before) {
        context = Propagation.leave(before);
    }

    /**
     * The copy of the source that the current fiber has kept; null if it kept no copy, kept one of another
     * source, or it was collected.
     */
    public Object copyOf(Object source) {
        WeakReference<Object[]> copied = rare == null ? null : rare.copied;
        Object[] kept = copied == null ? null : copied.get();
        return kept != null && kept[0] == source ? kept[1] : null;
    }

    /** Keeps a copy of the source, which {@link #copyOf} can return many times. Returns the copy. */
    public Object keepCopy(Object source, Object copy) {
        makeRare().copied = new WeakReference<>(new Object[] {source, copy});
        return copy;
    }

    private RareState makeRare() {
        if (rare == null) {
            rare = new RareState();
        }
        return rare;
    }

    /** The scope that owns this fiber, or null. */
    public Object home() {
        return home;
    }

    /** The innermost cancellation scope of this fiber, which is the current one; or null. */
    public CancellationScope cancellationScope() {
        return innermost;
    }

    /** True if a shield masks the own cause of this fiber and all the cancellation scopes that it is in. */
    public boolean isShielded() {
        return shields > 0 && innermost == masked;
    }

    /** Enters a cancellation scope. */
    public void enter(CancellationScope inner) {
        inner.outer = innermost;
        inner.fiber = this;
        innermost = inner;
    }

    /**
     * Leaves the innermost cancellation scope, and withdraws the interrupt that came with its cause. The one of
     * another cause stays, unless a {@link BeforeInterrupt} holds it back.
     */
    public void leave() {
        boolean cancelled = innermost.cause() != null;
        innermost = innermost.outer;
        if (cancelled && !isCancelled()) {
            boolean interrupted = Thread.interrupted();
            interruptLater = anyCause() != null && (interruptLater || interrupted);
        } else if (cancelled && beforeInterrupt() != null) {
            interruptAgain();
        }
    }

    /** Leaves the innermost cancellation scope. It is vacant until a fiber enters it again. */
    public void vacate() {
        CancellationScope left = innermost;
        leave();
        left.fiber = null;
    }

    private Cause causeWithin(CancellationScope end) {
        for (CancellationScope r = innermost; r != end; r = r.outer) {
            if (r.cause() != null) {
                return r.cause();
            }
        }
        return null;
    }

    /** Why this fiber has to end, or null. */
    public Cause cause() {
        return cause;
    }

    /**
     * Why the current fiber has to end its present work: its own cause, or the cause of a cancellation scope
     * that it is in.
     */
    private Cause anyCause() {
        return cause != null ? cause : innermost == null ? null : causeWithin(null);
    }

    /**
     * The same, except what a shield masks: the fiber's own cause, and the causes of cancellation scopes
     * entered before the shield.
     */
    private Cause openCause() {
        return shields == 0 ? anyCause() : causeWithin(masked);
    }

    /**
     * Gives the fiber a cause to end, then interrupts it. Returns false, and ignores the cause, if there is
     * one already and this is not a kill.
     */
    public boolean cancel(Cause why) {
        if (Fault.INTERRUPT_COMES_BEFORE_CAUSE.isSeeded()) {
            get().interrupt();
        }
        Simulated.switchPoint();
        boolean taken = CAUSE.compareAndSet(this, (Cause) null, why) || why instanceof Cause.Kill && kill(why);
        if (taken) {
            interrupt(null);
        }
        return taken;
    }

    /** True if it is in a shield. */
    boolean hasShield() {
        return shields > 0;
    }

    /** The innermost cancellation scope that the innermost shield masks, or null. */
    CancellationScope maskedScope() {
        return masked;
    }

    /** The innermost {@link BeforeInterrupt}, or null. Called by the fiber, or with its monitor. */
    BeforeInterrupt beforeInterrupt() {
        RareState r = rare; // a thread that sees it early sees no innermost one in it
        return r == null ? null : r.beforeInterrupt;
    }

    /** Sets the innermost {@link BeforeInterrupt}, or null. Called by the fiber. */
    void setBeforeInterrupt(BeforeInterrupt innermost) {
        RareState r = makeRare();
        synchronized (this) {
            r.beforeInterrupt = innermost;
        }
    }

    /**
     * Interrupts the thread because this cancellation scope of it was cancelled, or the fiber if that is null;
     * or begins what comes before that. It may have seen the cause already.
     */
    void interrupt(CancellationScope cancelled) {
        BeforeInterrupt.interrupt(this, cancelled);
    }

    /**
     * Clears the interrupt of this fiber, the current one, if it has a cause, and sends the interrupts of all
     * causes again. Those that a shield masks come later.
     */
    void interruptAgain() {
        if (anyCause() != null) {
            Thread.interrupted();
        }
        for (CancellationScope r = innermost; r != masked; r = r.outer) {
            if (r.cause() != null) {
                interrupt(r);
            }
        }
        if (shields > 0) {
            interruptLater |= anyCause() != null;
        } else if (cause != null) {
            interrupt(null);
        }
    }

    /** Interrupts the thread. */
    void interruptNow() {
        Thread t = get();
        if (t != null) {
            t.interrupt();
        }
    }

    private boolean kill(Cause why) {
        cause = why;
        return true;
    }

    /** True if the next kernel operation throws. */
    public boolean isCancelled() {
        return openCause() != null;
    }

    /** Throws the cause, if there is one that no shield masks. */
    public void check() {
        Cause why = openCause();
        if (why != null) {
            throw why.toError();
        }
    }

    /**
     * Runs the clean-up with the cause masked and its interrupt deferred. A cancellation scope that the
     * clean-up enters can still be cancelled, so a scope of its own can limit the clean-up.
     */
    public void shield(Runnable cleanUp) {
        CancellationScope before = masked;
        masked = innermost;
        shields++;
        if (anyCause() != null && Thread.interrupted()) {
            interruptLater = true;
        }
        try {
            cleanUp.run();
        } finally {
            shields--;
            masked = before;
            if (interruptLater && (shields == 0 || isCancelled())) {
                interruptLater = false;
                deliverInterrupt();
            }
        }
    }

    /** Interrupts this thread. If a {@link BeforeInterrupt} is open, it may hold that back. */
    private void deliverInterrupt() {
        if (beforeInterrupt() == null) {
            Thread.currentThread().interrupt();
        } else {
            interruptAgain();
        }
    }

    /**
     * The same, for a clean-up that may wait in the JDK: no interrupt of what is masked comes before its end,
     * unless memory has run out at its begin.
     */
    public void shieldFromInterrupts(Runnable cleanUp) {
        BeforeInterrupt shield = BeforeInterrupt.Shield.raise(this);
        try {
            shield(cleanUp);
        } finally {
            if (shield != null) {
                shield.close();
            }
        }
    }

    /** If a shield masks the cause of the interrupt: clears the interrupt until the shield ends. */
    public boolean putOffInterrupt() {
        boolean masked = shields > 0 && anyCause() != null;
        if (masked && Thread.interrupted()) {
            interruptLater = true;
        }
        return masked;
    }

    /**
     * Entry of a kernel operation: reserves the stack it needs, throws the cause, spends the budget, and
     * yields when that is used up.
     */
    public void enter() {
        StackRoom.touch();
        check();
        if (--budget <= 0) {
            budget = BUDGET;
            letOthersRun();
        }
    }

    /** Yields, and every {@value #STEP_ASIDE}th time steps aside, see {@link Spin}. */
    private void letOthersRun() {
        if (Simulated.hasLetOthersRun() || Fault.FIBER_NEVER_YIELDS.isSeeded()) {
            return;
        }
        if (++yields % STEP_ASIDE == 0) {
            Spin.stepAside();
        } else {
            Thread.yield();
        }
    }

    /** Records that the fiber has parked, and so has let other fibers run. */
    public void refill() {
        budget = BUDGET;
        handedOver = false;
        Schedulers.chosen().resumed();
        if (++resumptions == RESUMPTIONS_BETWEEN_CHECKS) {
            resumptions = 0;
            checkMonitor();
        }
    }

    /** Leaves its carrier if a probe waits for long: as each fiber does so, the queues of the carriers empty. */
    private void checkMonitor() {
        SchedulerMonitor.remind();
        if (SchedulerMonitor.isLate() && environment == Environment.REAL && Thread.currentThread().isVirtual()) {
            Spin.stepAside();
        }
    }

    @Override
    public boolean hasHandedOver() {
        return handedOver;
    }

    @Override
    public void handsOver() {
        handedOver = true;
    }

    /** An id that no other waiter of this environment has. */
    public long nextId() {
        if (nextId % ID_BLOCK == 0) { // a block begins at a multiple of its size
            nextId = environment.reserveIds(ID_BLOCK);
        }
        return nextId++;
    }

    /** A number that changes with each wait of this fiber. Another thread may see it late. */
    public long waits() {
        return nextId;
    }

    /** A random number below the bound; from the seed in a simulated environment. */
    public int random(int bound) {
        random ^= random << 13;
        random ^= random >>> 7;
        random ^= random << 17;
        return (int) (((random >>> 33) * bound) >>> 31);
    }

    /**
     * Runs a callback on the current fiber. Callbacks nest to a depth of {@value #CALLBACK_DEPTH}. A deeper
     * one runs after the outermost has returned, so that a chain of callbacks of any length needs a bounded
     * stack.
     */
    public void call(Runnable callback) {
        if (depth == CALLBACK_DEPTH) {
            putOff(callback);
            return;
        }
        depth++;
        try {
            callback.run();
        } finally {
            depth--;
            runLater();
        }
    }

    private void putOff(Runnable callback) {
        RareState r = makeRare();
        if (r.later == null) {
            r.later = new ArrayDeque<>();
        }
        r.later.add(callback);
    }

    private void runLater() {
        while (depth == 0 && rare != null && rare.later != null && !rare.later.isEmpty()) {
            Runnable next = rare.later.poll();
            depth++;
            try {
                next.run();
            } catch (Throwable t) {
                Failures.report(Thread.currentThread(), t);
            } finally {
                depth--;
            }
        }
    }

    /** Keeps the thread reachable until the fiber ends. */
    void hold(Thread thread) {
        held = thread;
    }

    /** Keeps the current fiber from being collected until {@link #release}. False if it is kept already. */
    public boolean hold() {
        if (held != null) {
            return false;
        }
        held = Thread.currentThread();
        return true;
    }

    /**
     * True if the fiber is kept from being collected, because a scope, a process or another fiber owns it.
     */
    public boolean isHeld() {
        return held != null;
    }

    /** Ends what {@link #hold()} began. */
    public void release() {
        held = null;
    }

    @Override
    public void uncaughtException(Thread t, Throwable e) {
        Failures.report(t, e);
    }
}
