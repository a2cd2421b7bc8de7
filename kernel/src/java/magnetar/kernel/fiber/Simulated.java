package magnetar.kernel.fiber;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MutableCallSite;
import magnetar.kernel.report.Failures;

/**
 * The places at which a simulation takes part: what each says is done only while the current fiber is simulated.
 *
 * <p>Invariants:
 * <ol>
 *   <li>{@link #switchPoint} stands before each compare-and-set that another thread can win, and before each lock.
 *   <li>While no simulation runs, the question whether one does is a constant false to the compiler, and folds away with what depends on it.
 * </ol>
 */
public final class Simulated {
    private static final MutableCallSite SIMULATED =
            new MutableCallSite(MethodHandles.constant(boolean.class, false));
    private static final MethodHandle IS_SIMULATED = SIMULATED.dynamicInvoker();

    static {
        Failures.setKeeper(Simulated::keeps);
    }

    private Simulated() {}

    /** Where a simulated scheduler may let another fiber run. */
    public static void switchPoint() {
        if (isSimulated()) {
            Fiber.current().world().reachSwitchPoint();
        }
    }

    /** The simulated world that the current thread is in, or null. */
    public static World world() {
        if (!isSimulated()) {
            return null;
        }
        World world = Fiber.current().world();
        return world.movesTimers() ? world : null;
    }

    /** The current fiber has let a thread of another world go on. */
    public static void meet(World other, Thread thread) {
        if (isSimulated() && Fiber.current().world() != other) {
            Fiber.current().world().meets(thread);
        }
    }

    /** Writes into the log of the simulation, if there is one. */
    public static void note(String what, Object on, Object value) {
        if (isSimulated()) {
            Fiber.current().world().write(what, on, value);
        }
    }

    /** True if a simulation loses this message of the current fiber. */
    public static boolean loses(Object to, Object message) {
        return isSimulated() && Fiber.current().world().isLost(to, message);
    }

    /** True if a simulation may delay the signals of the current fiber: asked first, so that nothing is made for {@link #delays} elsewhere. */
    public static boolean mayDelay() {
        return isSimulated() && Fiber.current().world().delaysSignals();
    }

    /** True if a simulation has taken this signal of the current fiber, and lets it arrive later, in the order of its sender and receiver. */
    public static boolean delays(Object from, Object to, Object what, Runnable arrival) {
        return Fiber.current().world().isDelayed(from, to, what, arrival);
    }

    /** Lets the signals arrive that a simulation has delayed between these two: one that is not delayed comes now. */
    public static void settle(Object from, Object to) {
        if (mayDelay()) {
            Fiber.current().world().letArrive(from, to);
        }
    }

    /** True if a simulation keeps this failure of the current fiber. */
    private static boolean keeps(String site, Throwable error) {
        return isSimulated() && Fiber.current().world().keepsFailure(site, error);
    }

    /** True if the current fiber is simulated, and has let others run: a spinning or a long-running one has to. */
    static boolean hasLetOthersRun() {
        return isSimulated() && Fiber.current().world().letOthersRun();
    }

    /** True on a fiber that expires the timers of a simulation. */
    public static boolean isExpiringTimers() {
        return isSimulated() && Fiber.current().world().isExpiring();
    }

    private static boolean isSimulated() {
        try {
            return (boolean) IS_SIMULATED.invokeExact();
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** Turns the switch points of all simulated fibers on or off; real fibers pass them by. */
    public static void simulate(boolean on) {
        SIMULATED.setTarget(MethodHandles.constant(boolean.class, on));
        MutableCallSite.syncAll(new MutableCallSite[] {SIMULATED});
    }
}
