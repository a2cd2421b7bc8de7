package magnetar.kernel.sched;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.concurrent.locks.LockSupport;
import jdk.management.VirtualThreadSchedulerMXBean;

/**
 * Adds carriers to the JDK's scheduler while fibers compute, and takes them back.
 *
 * <p>A virtual thread is not preempted: one that computes keeps its carrier. With one more carrier than there
 * are fibers that compute, the operating system's time slices divide the cores among all of them.
 *
 * <p>Invariants:
 * <ol>
 *   <li>At most {@value #MOST_BY_DEFAULT} carriers are added, or as many as the property
 *       {@code magnetar.added-carriers} says; none with 0.
 *   <li>The parallelism of the scheduler is what the program has set last, or what it was at first, plus
 *       {@link #added}. When the program sets it, no carrier counts as added.
 * </ol>
 *
 * <p>Source: the retaking of processors by Go's {@code sysmon}.
 */
public final class Carriers {
    private static final int MOST_BY_DEFAULT = 8;
    private static final long NO_ROOM_NANOS = 1_000_000_000;
    private static final int SUBMISSIONS = 64; // the JDK's first size of a queue
    private static final int MOST = Settings.number("magnetar.added-carriers", 0, MOST_BY_DEFAULT);

    /**
     * The body of a thread that only signals. Linked at start-up, while there is memory: a lambda whose linkage
     * ran out of memory may stay broken for ever.
     */
    static final Runnable NOTHING = () -> {};

    /**
     * Wakes a carrier. A change of the parallelism need not do that. A submission does, if its submission queue was
     * empty, or if it fills that queue. The queue of a fresh platform thread is mostly empty.
     */
    private static final Runnable SIGNAL = () -> {
        try {
            for (int i = 0; i < SUBMISSIONS && isOneIdle(); i++) {
                Thread.startVirtualThread(NOTHING);
            }
        } catch (Throwable noRoom) {
            // the monitor repeats it while a fiber waits
        }
    };

    /** Finds the beans, on a thread of its own, since it loads hundreds of classes. */
    private static final Runnable FIND = () -> {
        try {
            ThreadMXBean bean = ManagementFactory.getThreadMXBean();
            threads = bean.isThreadCpuTimeSupported() ? bean : null;
            scheduler = ManagementFactory.getPlatformMXBean(VirtualThreadSchedulerMXBean.class);
        } catch (OutOfMemoryError noRoom) {
            LockSupport.parkNanos(NO_ROOM_NANOS);
            finding = false; // to try it again
        } catch (Throwable broken) {
            // a class ran out of memory while it was loaded, and stays broken: no carrier is added any more
        }
    };

    // Written by the monitor.
    private static volatile int added;

    // Set by the monitor. Cleared by the thread that finds the beans, which sets the others.
    private static volatile boolean finding;
    private static volatile VirtualThreadSchedulerMXBean scheduler;
    private static volatile ThreadMXBean threads; // null if this JVM does not measure the time of threads

    // Only accessed by the monitor.
    private static int set; // the parallelism, as last set here

    private Carriers() {}

    /** How many carriers are added now. */
    public static int added() {
        return added;
    }

    /** How many carriers run a virtual thread; as many as there can be while that is not known. */
    static int mounted() {
        return scheduler == null ? Integer.MAX_VALUE : scheduler.getMountedVirtualThreadCount();
    }

    /** How many virtual threads wait for a carrier; 0 while that is not known. */
    static long queued() {
        return scheduler == null ? 0 : scheduler.getQueuedVirtualThreadCount();
    }

    /** The time on a core that the thread has used; negative while that is not known. */
    static long cpuNanos(Thread thread) {
        ThreadMXBean bean = threads;
        return bean == null ? -1 : bean.getThreadCpuTime(thread.threadId());
    }

    /**
     * Called by the monitor when a fiber has waited for long and so many carriers compute. Signals a carrier if
     * one is idle; else adds one if more compute than were added.
     */
    static void addOrSignal(int computing) {
        if (scheduler == null) {
            if (computing > 0) {
                find(); // a later call will do it
            }
            return;
        }
        if (mounted() < 0) {
            return; // virtual threads are platform threads in disguise
        }
        boolean idle = isOneIdle();
        forgetIfSet();
        boolean add = !idle && computing > added && added < MOST && !Fault.NO_CARRIER_IS_ADDED.isSeeded();
        if (add) {
            change(1);
        }
        if (add || idle) {
            new Thread(null, SIGNAL, "magnetar-signal", 0, false).start();
        }
    }

    private static void find() {
        if (finding) {
            return;
        }
        finding = true;
        try {
            new Thread(null, FIND, "magnetar-carriers", 0, false).start();
        } catch (OutOfMemoryError noRoom) {
            finding = false;
        }
    }

    private static boolean isOneIdle() {
        return mounted() < scheduler.getParallelism();
    }

    /** Takes back a carrier that was added. It goes on until it finds no work. Called by the monitor. */
    static void takeBack() {
        forgetIfSet();
        if (added > 0) {
            change(-1);
        }
    }

    /** After the program has set the parallelism, no carrier is an added one. */
    private static void forgetIfSet() {
        if (added > 0 && scheduler.getParallelism() != set) {
            added = 0;
        }
    }

    private static void change(int by) {
        set = scheduler.getParallelism() + by; // first, since the call may change the parallelism and then find no memory
        added += by;
        scheduler.setParallelism(set);
    }
}
