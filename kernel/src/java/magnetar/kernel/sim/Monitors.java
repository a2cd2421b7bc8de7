package magnetar.kernel.sim;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * What the JVM knows of fibers that it makes runnable itself, most of all of those that wait for a monitor. Who leaves a monitor hands it to a thread of the JDK, the unblocker, which makes the next one
 * runnable at a time that no seed decides; but the hand-over itself shows at once. So a simulation can tell that one is coming, and wait for it.
 *
 * <p>Relies on the inside of {@code java.lang.VirtualThread}. Refused: to preempt nobody who holds a monitor. {@code LiveStackFrame} tells which
 * monitors a thread holds, but not of all compiled frames: a run would depend on what the JIT has compiled.
 */
final class Monitors {
    private static final String UNBLOCKER = "VirtualThread-unblocker";
    private static final String[] SHARED = {"java.", "jdk.", "sun.", "clojure.lang.", "magnetar.kernel.fiber.Fibers", "magnetar.kernel.report.Failures",
            "magnetar.kernel.process.Guards", "magnetar.kernel.inspect."};

    private static final VarHandle LEFT_TO;
    private static final VarHandle STATE;
    private static final int UNPARKED;
    private static final int YIELDED;
    private static final Thread UNBLOCKER_THREAD = find();

    static {
        try {
            Class<?> c = Class.forName("java.lang.VirtualThread");
            MethodHandles.Lookup inside = MethodHandles.privateLookupIn(c, MethodHandles.lookup());
            LEFT_TO = inside.findVarHandle(c, "onWaitingList", boolean.class);
            STATE = inside.findVarHandle(c, "state", int.class);
            UNPARKED = (int) inside.findStaticVarHandle(c, "UNPARKED", int.class).get();
            YIELDED = (int) inside.findStaticVarHandle(c, "YIELDED", int.class).get();
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private Monitors() {}

    private static Thread find() {
        for (Thread t : Thread.getAllStackTraces().keySet()) {
            if (isUnblocker(t)) {
                return t;
            }
        }
        return null;
    }

    static boolean isUnblocker(Thread thread) {
        return UNBLOCKER.equals(thread.getName());
    }

    /** True if the monitor that it waits for was left to it: it will be submitted. */
    static boolean isComing(Thread blocked) {
        return (boolean) LEFT_TO.getVolatile(blocked) || isUnblockerBusy() || blocked.getState() == Thread.State.RUNNABLE;
    }

    /** True of one that can run because somebody has unparked it; false of one that has yielded. */
    static boolean isUnparked(Thread thread) {
        return (int) STATE.getVolatile(thread) == UNPARKED;
    }

    /** True of one that has called {@code Thread.yield}. */
    static boolean hasYielded(Thread thread) {
        return (int) STATE.getVolatile(thread) == YIELDED;
    }

    /** True where the JVM submits a thread because its stack was asked for, which it does with each that is not mounted and can run. */
    static boolean isLookedAt() {
        for (StackTraceElement frame : new Throwable().getStackTrace()) {
            if (frame.getMethodName().equals("tryGetStackTrace")) {
                return true;
            }
        }
        return false;
    }

    static boolean isUnblockerBusy() {
        StackTraceElement[] frames = UNBLOCKER_THREAD == null ? new StackTraceElement[0] : UNBLOCKER_THREAD.getStackTrace();
        return frames.length > 0 && !frames[0].getMethodName().equals("takeVirtualThreadListToUnblock");
    }

    /** True if real threads may hold it as well: nobody is preempted in one of these, so it will be left soon. */
    static boolean isShared(Thread blocked) {
        StackTraceElement[] frames = blocked.getStackTrace();
        if (frames.length == 0) {
            return true;
        }
        for (String prefix : SHARED) {
            if (frames[0].getClassName().startsWith(prefix)) {
                return !frames[0].getMethodName().startsWith("wait");
            }
        }
        return false;
    }
}
