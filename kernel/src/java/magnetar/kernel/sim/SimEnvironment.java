package magnetar.kernel.sim;

import java.lang.reflect.Method;
import java.util.Random;
import java.util.concurrent.Executor;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;

/**
 * The runtime environment of one simulation: clock, random numbers, threads. It passes all decisions to the
 * {@link Simulation}.
 */
final class SimEnvironment extends Environment {
    private static final Method NEW_THREAD = open();

    final Simulation simulation;
    private final Random random;

    SimEnvironment(Simulation simulation, long seed) {
        this.simulation = simulation;
        this.random = new Random(seed);
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
        SimFiber fiber = simulation.newFiber(name);
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
        return simulation.isExpiring();
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
        simulation.recordForeignWake(woken);
    }

    @Override
    protected boolean isLost(Object to, Object message) {
        return simulation.faults().loses(to, message);
    }

    @Override
    protected boolean delaysSignals() {
        return simulation.faults().delaysSignals();
    }

    @Override
    protected boolean isDelayed(Object from, Object to, Object what, Runnable arrival) {
        return simulation.faults().delays(from, to, what, arrival);
    }

    @Override
    protected void deliverDelayed(Object from, Object to) {
        simulation.faults().deliverDelayed(from, to);
    }

    @Override
    protected boolean keepsFailure(String site, Throwable error) {
        return simulation.keepsFailure(site, error);
    }
}
