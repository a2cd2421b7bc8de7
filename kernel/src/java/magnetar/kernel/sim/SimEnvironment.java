package magnetar.kernel.sim;

import java.lang.reflect.Method;
import java.util.Random;
import java.util.concurrent.Executor;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.time.Wheel;

/**
 * The runtime environment of one simulation, or of one node of it: clock, random numbers, threads. It passes all
 * decisions to the {@link Simulation}.
 */
class SimEnvironment extends Environment {
    private static final Method NEW_THREAD = open();

    final Simulation simulation;
    final FaultInjector faults = new FaultInjector(this);
    private final Random random;

    // The simulator's own fibers, set when it starts them.
    SimFiber timers;
    SimFiber injector;

    SimEnvironment(Simulation simulation, long seed) {
        this.simulation = simulation;
        this.random = new Random(seed);
    }

    /** What the names of its fibers begin with. */
    String prefix() {
        return "";
    }

    /** True if it has crashed: none of its fibers runs again. */
    boolean isGone() {
        return false;
    }

    /** When its timers have to be checked next, on the clock of the simulation; {@link Long#MAX_VALUE} without timers. */
    long nextNanos() {
        return Wheel.of(this).nextNanos();
    }

    /** What a fiber waits for. */
    interface Condition {
        boolean holds();
    }

    /** Parks the current fiber, which is in this environment, until the condition holds. It is unparked when that may be. */
    void await(Condition over, Object on) throws InterruptedException {
        Fiber me = Fiber.current();
        while (!over.holds()) {
            me.check();
            if (Thread.currentThread().isInterrupted() && !me.putOffInterrupt()) {
                Thread.interrupted();
                throw new InterruptedException("interrupted while it waited for " + on);
            }
            park(on);
            me.refill();
        }
    }

    private static Method open() {
        try {
            Method m = Class.forName("java.lang.ThreadBuilders")
                    .getDeclaredMethod("newVirtualThread", Executor.class, String.class, int.class, Runnable.class);
            m.setAccessible(true);
            return m;
        } catch (ReflectiveOperationException | RuntimeException closed) {
            return null;
        }
    }

    static boolean isPossible() {
        return NEW_THREAD != null;
    }

    @Override
    public long nanoTime() {
        return simulation.now;
    }

    @Override
    public long seed() {
        return random.nextLong();
    }

    @Override
    public long creation() {
        return SIMULATED_CREATION;
    }

    @Override
    public void park(Object waiter) {
        simulation.log("waits", waiter, null);
        LockSupport.park(waiter);
    }

    @Override
    public void unpark(Thread thread, Fiber fiber) {
        simulation.wakes(thread);
        LockSupport.unpark(thread);
    }

    @Override
    public Thread newThread(String name, Runnable task) {
        if (task instanceof LocalProcess p && p.pid().creation() != creation()) {
            simulation.recordShared(p); // a passivated process of another node
        }
        SimFiber fiber = simulation.newFiber(this, name);
        try {
            fiber.thread = (Thread) NEW_THREAD.invoke(null, fiber, name, 0, task);
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
        return fiber.thread;
    }

    @Override
    public Thread newPlatformThread(String name, Runnable task) {
        return newThread(name, task);
    }

    @Override
    public boolean movesTimers() {
        return true;
    }

    @Override
    protected boolean isExpiring() {
        return simulation.isRunning(timers);
    }

    @Override
    protected void reachSwitchPoint() {
        simulation.reachSwitchPoint();
    }

    @Override
    protected boolean letOthersRun() {
        return simulation.letOthersRun();
    }

    @Override
    protected void write(String what, Object on, Object value) {
        simulation.note(what, on, value);
    }

    @Override
    protected void recordForeignWake(Thread woken) {
        simulation.recordForeignWake(this, woken);
    }

    @Override
    protected boolean isLost(Object to, Object message) {
        return faults.loses(to, message);
    }

    @Override
    protected boolean delaysSignals() {
        return faults.delaysSignals();
    }

    @Override
    protected boolean isDelayed(Object from, Object to, Object what, Runnable arrival) {
        return faults.delays(from, to, what, arrival);
    }

    @Override
    protected void deliverDelayed(Object from, Object to) {
        faults.deliverDelayed(from, to);
    }

    @Override
    protected boolean keepsFailure(String site, Throwable error) {
        return simulation.keepsFailure(prefix() + site, error);
    }
}
