package magnetar.kernel.inspect;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitInfo;
import magnetar.kernel.time.Wheel;

/**
 * The state of a fiber at one instant, read by another thread without its co-operation.
 *
 * @param thread the thread itself
 * @param home the process or the scope that it belongs to, or null
 * @param reason the name of the kind of its wait in the kernel, such as CHANNEL_TAKE, or null if it is not
 *     parked there
 * @param waitsFor the same in words
 * @param on the object it waits on, or null
 * @param waitedNanos how long it has waited, or 0
 * @param number a number that only this wait has, or 0; see {@link #limits}
 * @param ageNanos how long ago the kernel started it, to about a tenth of a second; -1 if the kernel has not
 */
public record FiberInfo(Thread thread, Object home, String reason, String waitsFor, Object on, long waitedNanos, long number, long ageNanos) {

    /** The state of this thread, which need not be a fiber. */
    public static FiberInfo of(Thread thread) {
        WaitInfo wait = Parked.waitOf(thread);
        Fiber fiber = thread.getUncaughtExceptionHandler() instanceof Fiber f ? f : null;
        Object home = fiber == null ? null : fiber.home();
        long age = fiber == null ? -1 : fiber.ageNanos();
        return wait == null
                ? new FiberInfo(thread, home, null, null, null, 0, 0, age)
                : new FiberInfo(thread, home, wait.reason().name(), wait.reason().words(SocketNames.of(wait.on())), wait.on(),
                        Math.max(0, Environment.current().nanoTime() - wait.since()), wait.id(), age);
    }

    /**
     * What this thread waited for last, if it does not wait now: a channel that it took from or put on, or the
     * messages of a process. Null if it has parked elsewhere since.
     */
    public static FiberInfo lastOf(Thread thread) {
        WaitInfo last = Parked.lastWaitOf(thread);
        return last == null ? null : new FiberInfo(thread, null, last.reason().name(), last.reason().words(), last.on(), 0, last.id(), -1);
    }

    /** All fibers that have not ended. In a simulation: its own. Elsewhere: those in no simulation. */
    public static List<FiberInfo> all() {
        List<Thread> threads = Fibers.threads();
        List<FiberInfo> all = new ArrayList<>(threads.size());
        for (Thread t : threads) {
            all.add(of(t));
        }
        return all;
    }

    /** The waits that have a time limit: for the number of each, the nanoseconds until it ends. */
    public static Map<Long, Long> limits() {
        return Wheel.of(Environment.current()).limits();
    }
}
