package magnetar.kernel.sched;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.locks.LockSupport;
import jdk.management.VirtualThreadSchedulerMXBean;

/**
 * Adds carriers to the JDK's scheduler while fibers compute or only yield, and takes them back.
 *
 * <p>A virtual thread is not preempted: one that computes keeps its carrier. With one more carrier than there
 * are fibers that compute, the operating system's time slices divide the cores among all of them.
 *
 * <p>Invariants:
 * <ol>
 *   <li>At most {@value #MOST_BY_DEFAULT} carriers are added, or as many as the property
 *       {@code magnetar.added-carriers} says; none with 0.
 *   <li>The parallelism of the scheduler is what the program has set last, or what it was at first, plus
 *       {@link #added}. When the program sets it, no carrier counts as added. A setting between a look at it here and
 *       the change after that is lost.
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
        } catch (OutOfMemoryError | RejectedExecutionException full) {
            // The monitor repeats this while a fiber waits.
        }
    };

    private static final Runnable FIND = Carriers::findBeans;

    /** The scheduler of virtual threads, as its management bean shows it. */
    private interface Pool {
        int parallelism();

        void setParallelism(int n);

        /** How many carriers run a virtual thread; negative if virtual threads are platform threads in disguise. */
        int mounted();

        /** How many virtual threads wait for a carrier. */
        long queued();
    }

    private record Direct(ForkJoinPool pool) implements Pool {
        @Override
        public int parallelism() {
            return pool.getParallelism();
        }

        @Override
        public void setParallelism(int n) {
            pool.setParallelism(n);
        }

        @Override
        public int mounted() {
            return pool.getActiveThreadCount();
        }

        @Override
        public long queued() {
            return pool.getQueuedTaskCount() + pool.getQueuedSubmissionCount();
        }
    }

    private record Managed(VirtualThreadSchedulerMXBean bean) implements Pool {
        @Override
        public int parallelism() {
            return bean.getParallelism();
        }

        @Override
        public void setParallelism(int n) {
            bean.setParallelism(n);
        }

        @Override
        public int mounted() {
            return bean.getMountedVirtualThreadCount();
        }

        @Override
        public long queued() {
            return bean.getQueuedVirtualThreadCount();
        }
    }

    // Written by the monitor.
    private static volatile int added;

    // Set by the monitor. Cleared by the thread that finds the beans.
    private static volatile boolean finding;

    // Set before the monitor runs, or by the thread that finds the beans.
    private static volatile Pool pool;

    // Set by the thread that finds the beans.
    private static volatile ThreadMXBean threads; // null if this JVM does not measure the time of threads

    // Only accessed by the monitor.
    private static int set; // the parallelism, as last set here

    private Carriers() {}

    /** How many carriers are added now. */
    public static int added() {
        return added;
    }

    /** Sets the scheduler of virtual threads, where it is known without a bean. */
    static void use(ForkJoinPool known) {
        pool = new Direct(known);
    }

    /** How many carriers run a virtual thread; as many as there can be while that is not known. */
    static int mounted() {
        Pool p = pool;
        return p == null ? Integer.MAX_VALUE : p.mounted();
    }

    /** How many virtual threads wait for a carrier; 0 while that is not known. */
    static long queued() {
        Pool p = pool;
        return p == null ? 0 : p.queued();
    }

    /** The time on a core that the thread has used; negative while that is not known. */
    static long cpuNanos(Thread thread) {
        ThreadMXBean bean = threads;
        return bean == null ? -1 : bean.getThreadCpuTime(thread.threadId());
    }

    /**
     * Called by the monitor when a fiber has waited for long and so many carriers compute. Signals a carrier if
     * one is idle; else adds as many as are missing. Returns false if none is left that could be added.
     */
    static boolean addOrSignal(int computing) {
        if (threads == null && computing > 0) {
            find(); // a later call will know more
        }
        if (pool == null || mounted() < 0) {
            return true;
        }
        boolean idle = isOneIdle();
        forgetIfSet();
        int missing = idle || Fault.NO_CARRIER_IS_ADDED.isSeeded() ? 0 : computing - added;
        int more = Math.min(missing, MOST - added);
        if (more > 0) {
            change(more);
        }
        if (more > 0 || idle) {
            new Thread(null, SIGNAL, "magnetar-signal", 0, false).start();
        }
        return missing <= 0 || more > 0 || MOST == 0;
    }

    /** The sentences for a program whose fibers wait because no carrier can be added. */
    static String exhausted() {
        return "Fibers have waited for a second, because all " + pool.parallelism() + " carriers are occupied, " + added
                + " of them added, by fibers that compute or block. Run such work with magnetar.scope/offload, or set -Dmagnetar.added-carriers="
                + 2 * MOST + ".";
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

    /**
     * Finds the beans. Runs on a thread of its own, since it loads hundreds of classes. Without memory for it, carriers are
     * added all the same, where the scheduler is known without a bean.
     */
    private static void findBeans() {
        try {
            if (pool == null) {
                pool = new Managed(ManagementFactory.getPlatformMXBean(VirtualThreadSchedulerMXBean.class));
            }
            ThreadMXBean bean = ManagementFactory.getThreadMXBean();
            threads = bean.isThreadCpuTimeSupported() ? bean : null;
        } catch (OutOfMemoryError noRoom) {
            LockSupport.parkNanos(NO_ROOM_NANOS);
            finding = false; // to try it again
        } catch (Throwable broken) {
            // a class ran out of memory while it was loaded, and stays broken: no bean is found any more
        }
    }

    private static boolean isOneIdle() {
        return mounted() < pool.parallelism();
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
        if (added > 0 && pool.parallelism() != set) {
            added = 0;
        }
    }

    private static void change(int by) {
        set = pool.parallelism() + by; // first, since the call may change the parallelism and then find no memory
        added += by;
        pool.setParallelism(set);
    }
}
