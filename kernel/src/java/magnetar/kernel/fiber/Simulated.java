package magnetar.kernel.fiber;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MutableCallSite;
import magnetar.kernel.report.Failures;

/**
 * The hooks of a simulation. Each acts only while the current fiber is simulated.
 *
 * <p>Invariants:
 * <ol>
 *   <li>{@link #switchPoint} precedes each lock, and each compare-and-set that another thread can win.
 *   <li>While no simulation runs, the compiler sees a constant false, and the hooks fold away.
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
            Fiber.current().environment().reachSwitchPoint();
        }
    }

    /** The simulated environment that the current thread is in, or null. */
    public static Environment environment() {
        if (!isSimulated()) {
            return null;
        }
        Environment environment = Fiber.current().environment();
        return environment.movesTimers() ? environment : null;
    }

    /** Records that the current fiber has woken a thread of another environment. */
    public static void recordWake(Environment other, Thread woken) {
        if (isSimulated() && Fiber.current().environment() != other) {
            Fiber.current().environment().recordForeignWake(woken);
        }
    }

    /** Writes into the log of the simulation, if one runs. */
    public static void note(String what, Object on, Object value) {
        if (isSimulated()) {
            Fiber.current().environment().write(what, on, value);
        }
    }

    /** True if the simulation drops this message of the current fiber. */
    public static boolean loses(Object to, Object message) {
        return isSimulated() && Fiber.current().environment().isLost(to, message);
    }

    /**
     * True if the simulation may delay the signals of the current fiber. Asked before {@link #delays}, so
     * that its arguments are made only then.
     */
    public static boolean mayDelay() {
        return isSimulated() && Fiber.current().environment().delaysSignals();
    }

    /**
     * True if the simulation has taken this signal of the current fiber. It arrives later, in order among
     * signals of this sender and receiver.
     */
    public static boolean delays(Object from, Object to, Object what, Runnable arrival) {
        return Fiber.current().environment().isDelayed(from, to, what, arrival);
    }

    /** Delivers the delayed signals between these two, because one that is not delayed comes now. */
    public static void deliver(Object from, Object to) {
        if (mayDelay()) {
            Fiber.current().environment().deliverDelayed(from, to);
        }
    }

    /** True if the simulation records this failure of the current fiber. */
    private static boolean keeps(String site, Throwable error) {
        return isSimulated() && Fiber.current().environment().keepsFailure(site, error);
    }

    /**
     * True if the current fiber is simulated and has let others run, which a spinning or long-running fiber
     * has to.
     */
    static boolean hasLetOthersRun() {
        return isSimulated() && Fiber.current().environment().letOthersRun();
    }

    /** True on a fiber that expires the timers of a simulation. */
    public static boolean isExpiringTimers() {
        return isSimulated() && Fiber.current().environment().isExpiring();
    }

    private static boolean isSimulated() {
        try {
            return (boolean) IS_SIMULATED.invokeExact();
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** Turns the hooks on or off. They pass by real fibers. */
    public static void simulate(boolean on) {
        SIMULATED.setTarget(MethodHandles.constant(boolean.class, on));
        MutableCallSite.syncAll(new MutableCallSite[] {SIMULATED});
    }
}
