package magnetar.kernel.fiber;

import java.lang.Thread.UncaughtExceptionHandler;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.WeakReference;
import java.util.ArrayDeque;
import magnetar.kernel.report.Failures;
import magnetar.kernel.sched.Delays;
import magnetar.kernel.sched.Fault;
import magnetar.kernel.sched.Schedulable;
import magnetar.kernel.sched.Ticker;

/**
 * What the kernel knows about one thread: its world, its cause to end, its budget, its random numbers.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The cause is written before the thread is interrupted, at most once, and never taken back; a kill may replace another
 *       cause. {@link #check} throws it again each time.
 *   <li>A fiber is found through its thread: it is the thread's uncaught-exception handler, which costs no entry in a
 *       thread-local map and no search. A program that sets a handler of its own in the fiber is met by the slow way: the
 *       registry, once, then a thread-local.
 *   <li>A fiber holds its thread weakly unless it is {@link #hold held}: a go block parked on channels that nobody can reach
 *       is collected, with its fiber. One that owns a scope is held: deadline and clean-ups are due.
 * </ol>
 *
 * <p>There may be a million, 112 bytes each: a field more costs all of them 8.
 *
 * <p>Refused: a {@code ScopedValue} for identity (0.3 to 0.6 kB per parked thread), a {@code ThreadLocal} for it (0.25 kB).
 */
public final class Fiber extends WeakReference<Thread> implements Failures.Handler, Schedulable {
    /** Kernel operations that a fiber may do without parking before it lets others run. */
    public static final int BUDGET = 1000;

    private static final int STEP_ASIDE = 16;
    private static final int LOOK = 64;
    private static final int ID_BLOCK = 256;
    private static final int CALLBACK_DEPTH = 64;
    private static final ThreadLocal<Fiber> SLOW = new ThreadLocal<>();
    private static final VarHandle CAUSE;

    static {
        try {
            CAUSE = MethodHandles.lookup().findVarHandle(Fiber.class, "cause", Cause.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final World world;

    // Set or read by any thread.
    private volatile Cause cause;

    // Links of the registry, guarded by the shard.
    Fiber previous;
    Fiber next;
    Fibers.Shard shard;

    // Set by the starter or the owner thread, cleared by the fiber at its end: keeps the thread reachable.
    Thread held;

    // Set by the starter, then only accessed by the owner thread.
    private Object context;
    private Object home;

    // The rest is only accessed by the owner thread.
    private Region region;
    private short budget = BUDGET;
    private int shields;
    private Region masked; // by the innermost shield: this region and those around it
    private boolean interruptLater;
    private byte yields;
    private short parks; // since the ticker was reminded
    private int delaysSeen = Delays.count();
    private boolean handedOver; // since it last parked
    private long random;
    private long nextId;
    private byte depth;
    private ArrayDeque<Runnable> later;
    private WeakReference<Object[]> copied; // something, and the copy of it

    Fiber(Thread thread, World world) {
        super(thread, Fibers.COLLECTED);
        this.world = world;
        this.random = world.seed() | 1;
    }

    /** What a fiber takes from the one that starts it. */
    Fiber inherit(Fiber starter, Object owner) {
        context = starter.context;
        home = owner;
        return this;
    }

    /** The fiber of the current thread; a thread that the kernel did not start gets one at its first operation. */
    public static Fiber current() {
        Thread t = Thread.currentThread();
        UncaughtExceptionHandler h = t.getUncaughtExceptionHandler();
        return h instanceof Fiber f && f.refersTo(t) ? f : currentSlow(t, h);
    }

    private static Fiber currentSlow(Thread t, UncaughtExceptionHandler set) {
        Fiber f = SLOW.get();
        if (f == null) {
            f = set instanceof ThreadGroup ? null : Fibers.find(t); // a thread without a handler of its own was not started here
            SLOW.set(f == null ? f = new Fiber(t, World.REAL) : f);
        }
        return f;
    }

    /** The clock, chance and scheduler of this fiber. */
    public World world() {
        return world;
    }

    /** The context values of this fiber, an immutable map of the face's own; null if there are none. */
    public Object context() {
        return context;
    }

    /** Replaces the context values; the caller puts the former ones back. */
    public void setContext(Object values) {
        context = values;
    }

    /** The copy that this, the current, fiber has kept of the source; null if it has kept none, or another's, or it was collected. */
    public Object copyOf(Object source) {
        Object[] kept = copied == null ? null : copied.get();
        return kept != null && kept[0] == source ? kept[1] : null;
    }

    /** Keeps the copy of the source, to be given to many; returns it. */
    public Object keepCopy(Object source, Object copy) {
        copied = new WeakReference<>(new Object[] {source, copy});
        return copy;
    }

    /** The scope that owns this fiber, or null. */
    public Object home() {
        return home;
    }

    /** The innermost region that this, the current, fiber is in, or null. */
    public Region region() {
        return region;
    }

    /** True if a shield masks all the regions that this, the current, fiber is in, and its own cause. */
    public boolean isShielded() {
        return shields > 0 && region == masked;
    }

    /** Enters a region. */
    public void enterRegion(Region inner) {
        inner.outer = region;
        inner.fiber = this;
        region = inner;
    }

    /** Leaves the innermost region; the interrupt that came with its cause is withdrawn. */
    public void leaveRegion() {
        boolean doomed = region.cause() != null;
        region = region.outer;
        if (doomed && !isDoomed()) {
            boolean interrupted = Thread.interrupted();
            interruptLater = anyCause() != null && (interruptLater || interrupted);
        }
    }

    /** Leaves the innermost region, which nobody is in from now on until another fiber enters it. */
    public void vacateRegion() {
        Region left = region;
        leaveRegion();
        left.fiber = null;
    }

    private Cause regionCause(Region end) {
        for (Region r = region; r != end; r = r.outer) {
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

    /** Why this, the current, fiber has to end what it does now: its own cause, or that of a region it is in. */
    private Cause anyCause() {
        return cause != null ? cause : region == null ? null : regionCause(null);
    }

    /** The same, but for what a shield masks: the fiber's own cause, and those of the regions that the shield was raised in. */
    private Cause openCause() {
        return shields == 0 ? anyCause() : regionCause(masked);
    }

    /** Gives the fiber a cause to end, then interrupts it. A second cause is ignored, but for a kill. False if ignored. */
    public boolean doom(Cause why) {
        if (Fault.INTERRUPT_COMES_BEFORE_CAUSE.isPlanted()) {
            get().interrupt();
        }
        Simulated.switchPoint();
        boolean taken = CAUSE.compareAndSet(this, (Cause) null, why) || why instanceof Cause.Kill && kill(why);
        if (taken) {
            interrupt();
        }
        return taken;
    }

    /** Interrupts the thread, which may have seen why already. */
    void interrupt() {
        Simulated.switchPoint();
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
    public boolean isDoomed() {
        return openCause() != null;
    }

    /** Throws the cause, if there is one and no shield masks it. */
    public void check() {
        Cause why = openCause();
        if (why != null) {
            throw why.toError();
        }
    }

    /**
     * Runs the clean-up with the cause masked, and the interrupt that comes with it put off. A region that the clean-up enters can be
     * doomed as ever: a scope of its own limits it.
     */
    public void shield(Runnable cleanUp) {
        Region before = masked;
        masked = region;
        shields++;
        if (anyCause() != null && Thread.interrupted()) {
            interruptLater = true;
        }
        try {
            cleanUp.run();
        } finally {
            shields--;
            masked = before;
            if (interruptLater && (shields == 0 || isDoomed())) {
                interruptLater = false;
                Thread.currentThread().interrupt();
            }
        }
    }

    /** If the interrupt came with a cause that a shield masks: withdraws it until the shield ends. */
    public boolean putOffInterrupt() {
        boolean masked = shields > 0 && anyCause() != null;
        if (masked && Thread.interrupted()) {
            interruptLater = true;
        }
        return masked;
    }

    /** Entry of a kernel operation: makes sure of the stack it needs, throws the cause, spends the budget, and at zero lets others run. */
    public void enter() {
        StackRoom.touch();
        check();
        if (--budget <= 0 || Delays.count() != delaysSeen) {
            giveWay();
        }
    }

    private void giveWay() {
        int delays = Delays.count();
        boolean late = delays != delaysSeen;
        delaysSeen = delays;
        if (budget <= 0) {
            budget = BUDGET;
            letOthersRun();
        }
        if (late && world == World.REAL && Thread.currentThread().isVirtual()) { // nothing of the real world's chance in a simulation
            Spin.stepAside();
        }
    }

    /** Yields, and now and then steps aside: see {@link Spin}. */
    private void letOthersRun() {
        if (Simulated.hasLetOthersRun() || Fault.FIBER_NEVER_YIELDS.isPlanted()) {
            return;
        }
        if (++yields % STEP_ASIDE == 0) {
            Spin.stepAside();
        } else {
            Thread.yield();
        }
    }

    /** The fiber has parked, so it has let others run. */
    public void refill() {
        budget = BUDGET;
        handedOver = false;
        if (++parks == BUDGET) {
            parks = 0;
            Ticker.remind();
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

    /** True at one turn in {@value #LOOK}. */
    @Override
    public boolean looksOutside() {
        return parks % LOOK == 0;
    }

    /** An id that no other waiter of this world has. */
    public long nextId() {
        if (nextId % ID_BLOCK == 0) { // a block begins at a multiple of its size
            nextId = world.reserveIds(ID_BLOCK);
        }
        return nextId++;
    }

    /** Differs after each wait of this fiber; another thread may learn of it late. */
    public long waits() {
        return nextId;
    }

    /** A random number below the bound; from the seed in a simulated world. */
    public int random(int bound) {
        random ^= random << 13;
        random ^= random >>> 7;
        random ^= random << 17;
        return (int) (((random >>> 33) * bound) >>> 31);
    }

    /**
     * Runs a callback on this, the current, fiber. Nested ones run inside each other to a depth of {@value #CALLBACK_DEPTH},
     * deeper ones after the outermost has returned, so that a chain of callbacks of any length needs a bounded stack.
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
        if (later == null) {
            later = new ArrayDeque<>();
        }
        later.add(callback);
    }

    private void runLater() {
        while (depth == 0 && later != null && !later.isEmpty()) {
            Runnable next = later.poll();
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

    /** Keeps this, the current, fiber from being collected until {@link #release}; false if it is kept already. */
    public boolean hold() {
        if (held != null) {
            return false;
        }
        held = Thread.currentThread();
        return true;
    }

    /** True if it is kept from being collected: somebody owns it. */
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
