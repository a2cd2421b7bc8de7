package magnetar.kernel.sim;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * What the JVM knows of fibers that it makes runnable itself, especially fibers that wait for a monitor. A
 * thread that leaves a monitor hands it to a thread of the JDK, the unblocker. That makes the next fiber
 * runnable at a time that no seed decides, while the hand-over itself is visible at once. So a simulation can
 * tell that a fiber is about to become runnable, and wait for it.
 *
 * <p>Relies on the inside of {@code java.lang.VirtualThread}. Rejected: never to preempt a fiber that holds a
 * monitor. {@code LiveStackFrame} shows which monitors a thread holds, except in some compiled frames. A run
 * would then depend on what the JIT has compiled.
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

    /** True if the monitor that it waits for was handed to it, so that it will be submitted. */
    static boolean isComing(Thread blocked) {
        return (boolean) LEFT_TO.getVolatile(blocked) || isUnblockerBusy() || blocked.getState() == Thread.State.RUNNABLE;
    }

    /** True if the thread can run because it was unparked; false if it has yielded. */
    static boolean isUnparked(Thread thread) {
        return (int) STATE.getVolatile(thread) == UNPARKED;
    }

    /** True if the thread has called {@code Thread.yield}. */
    static boolean hasYielded(Thread thread) {
        return (int) STATE.getVolatile(thread) == YIELDED;
    }

    /**
     * True during a submission by the JVM because a thread's stack was requested. It submits each unmounted
     * thread that can run.
     */
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

    /**
     * True if real threads may hold the monitor too. No fiber is preempted while it holds one of these, so it
     * will be left soon.
     */
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
