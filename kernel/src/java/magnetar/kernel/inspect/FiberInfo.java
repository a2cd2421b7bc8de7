package magnetar.kernel.inspect;

import java.util.ArrayList;
import java.util.List;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitInfo;

/**
 * The state of a fiber at one instant, read by another thread without its co-operation.
 *
 * @param thread the thread itself
 * @param waitsFor why it is parked in the kernel, in words, or null if it is not parked there
 * @param on the object it waits on, or null
 * @param waitedNanos how long it has waited, or 0
 */
public record FiberInfo(Thread thread, String waitsFor, Object on, long waitedNanos) {

    /** The state of this thread, which need not be a fiber. */
    public static FiberInfo of(Thread thread) {
        WaitInfo wait = Parked.waitOf(thread);
        return wait == null
                ? new FiberInfo(thread, null, null, 0)
                : new FiberInfo(thread, wait.reason().words(), wait.on(), Math.max(0, Environment.current().nanoTime() - wait.since()));
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
}
