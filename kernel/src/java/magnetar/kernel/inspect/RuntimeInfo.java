package magnetar.kernel.inspect;

import java.lang.management.ManagementFactory;
import jdk.management.VirtualThreadSchedulerMXBean;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.sched.Carriers;
import magnetar.kernel.sched.Scheduler;
import magnetar.kernel.sched.Schedulers;
import magnetar.kernel.time.Wheel;

/**
 * How the kernel runs on this JVM, and some of its counts at one instant.
 *
 * @param handsOver true if a woken fiber is handed over to the carrier of its waker, which needs {@code
 *     java.lang} to be open
 * @param startsUntracked true if collectable fibers start without an executor of their own
 * @param addedCarriers the number of carriers that were added because fibers compute
 * @param fibers the number of fibers that have not ended
 * @param timers the number of waiting timers outside of simulations
 */
public record RuntimeInfo(boolean handsOver, boolean startsUntracked, int addedCarriers, int fibers, int timers) {

    /** The state at this instant. */
    public static RuntimeInfo now() {
        Scheduler scheduler = Schedulers.chosen();
        return new RuntimeInfo(scheduler.handsOver(), scheduler.startsUntracked(), Carriers.added(), Fibers.count(),
                Wheel.of(Environment.REAL).size());
    }

    /**
     * How many carriers fibers have now, with those that were added: the parallelism of the JDK's scheduler. The
     * first call loads hundreds of classes.
     */
    public static int carriers() {
        return ManagementFactory.getPlatformMXBean(VirtualThreadSchedulerMXBean.class).getParallelism();
    }
}
