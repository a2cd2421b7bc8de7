package magnetar.kernel.park;

import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.fiber.World;

/**
 * What a thread waits for in the kernel, as somebody else sees it who holds the thread: there is no second table.
 *
 * @param reason why
 * @param on the object it waits on: a channel, the pid of a process, a select, a fork, what else it waits for; or null
 * @param since when the wait began, on the clock of {@link World#nanoTime}
 * @param number differs from that of each other wait
 */
public record Wait(WaitReason reason, Object on, long since, long number) {

    /** What the thread waits for; null if it does not wait in the kernel. */
    public static Wait of(Thread thread) {
        Object blocker = LockSupport.getBlocker(thread);
        if (blocker instanceof WaitSign sign) {
            return sign.read();
        }
        return blocker instanceof Parked p ? new Wait(p.reason(), p.on(), p.since(), p.id()) : null; // the latter in a simulated world
    }
}
