package magnetar.kernel.sim;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.reflect.Method;

/**
 * Tells whether the current thread holds a monitor. Nobody is preempted who does: a fiber that then met the monitor would be woken by a thread
 * of the JDK, at a time that no seed decides.
 *
 * <p>Relies on the inside of {@code java.lang.StackWalker}, which costs about a microsecond a frame.
 */
final class Monitors {
    private static final StackWalker WALKER;
    private static final MethodHandle MONITORS;

    static {
        try {
            Class<?> frame = Class.forName("java.lang.LiveStackFrame");
            Method walker = frame.getDeclaredMethod("getStackWalker");
            walker.setAccessible(true);
            Method monitors = frame.getDeclaredMethod("getMonitors");
            monitors.setAccessible(true);
            WALKER = (StackWalker) walker.invoke(null);
            MONITORS = MethodHandles.lookup().unreflect(monitors);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private Monitors() {}

    static boolean areHeld() {
        return WALKER.walk(frames -> frames.anyMatch(f -> in(f) > 0));
    }

    static int held() {
        return WALKER.walk(frames -> frames.mapToInt(Monitors::in).sum());
    }

    private static int in(StackWalker.StackFrame frame) {
        try {
            return ((Object[]) MONITORS.invoke(frame)).length;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }
}
