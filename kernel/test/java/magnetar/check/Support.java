package magnetar.check;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.park.Parked;

/** Helpers of the checks. A check throws an {@code AssertionError} that says what it saw. */
final class Support {
    private Support() {}

    interface Body {
        void run() throws Throwable;
    }

    /**
     * An environment that pauses at switch points now and then, to cause interleavings that are rare on two
     * cores.
     */
    static final class Noisy extends Environment {
        private final int oneIn;
        private final long nanos;

        Noisy(int oneIn, long nanos) {
            this.oneIn = oneIn;
            this.nanos = nanos;
        }

        @Override
        protected void reachSwitchPoint() {
            ThreadLocalRandom chance = ThreadLocalRandom.current();
            if (chance.nextInt(oneIn) == 0) {
                pause(chance.nextLong(nanos));
            }
        }

        private static void pause(long nanos) {
            for (long end = System.nanoTime() + nanos; System.nanoTime() < end; ) {
                Thread.onSpinWait();
            }
        }
    }

    /**
     * Lets another thread run for a moment, so that interleavings do not depend on a free core. For platform
     * threads.
     */
    static void doze() {
        if (ThreadLocalRandom.current().nextInt(2) == 0) {
            try {
                Thread.sleep(java.time.Duration.ofNanos(1_000));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Starts a virtual thread in this environment. A failure of the body is printed, and fails the check. */
    static Thread fiber(Environment environment, Body body) {
        return start(Thread.ofVirtual().unstarted(() -> guarded(body)), environment);
    }

    /** Starts a platform thread in this environment. */
    static Thread platform(Environment environment, Body body) {
        return start(Thread.ofPlatform().daemon().unstarted(() -> guarded(body)), environment);
    }

    private static Thread start(Thread t, Environment environment) {
        Fibers.adopt(t, environment);
        t.start();
        return t;
    }

    static volatile Throwable failure;

    private static void guarded(Body body) {
        try {
            body.run();
        } catch (Throwable t) {
            failure = t;
        }
    }

    /** How long a check waits for an event that should happen at once. */
    private static final int SECONDS = Integer.getInteger("magnetar.check.seconds", 10);
    static final long LIMIT_NANOS = SECONDS * 1_000_000_000L;

    /** Waits at most {@code SECONDS} until the condition is true. */
    static void until(String what, BooleanSupplier condition) {
        until(what, SECONDS, condition);
    }

    static void until(String what, int seconds, BooleanSupplier condition) {
        for (long end = System.nanoTime() + seconds * 1_000_000_000L; !condition.getAsBoolean(); ) {
            require(System.nanoTime() < end, "did not happen within " + seconds + " s: " + what);
            LockSupport.parkNanos(20_000);
        }
    }

    /** Waits for the end of the thread. If it does not end, says what it waits for. */
    static void join(Thread t) throws InterruptedException {
        if (!t.join(java.time.Duration.ofSeconds(SECONDS))) {
            throw new AssertionError("a thread hangs: " + t + ", which is " + t.getState() + ", for " + Parked.waitOf(t) + ", blocker " + LockSupport.getBlocker(t));
        }
        if (failure != null) {
            throw new AssertionError("a thread failed: " + failure, failure);
        }
    }

    static void require(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    /**
     * The number of nodes in the channel's two queues, including nodes of claimed waiters, which info()
     * hides.
     */
    static int nodes(Channel<?> channel) {
        return size(channel, "takers") + size(channel, "putters");
    }

    private static int size(Channel<?> channel, String queue) {
        try {
            Field field = Channel.class.getDeclaredField(queue);
            field.setAccessible(true);
            Method size = Class.forName("magnetar.kernel.channel.NodeQueue").getDeclaredMethod("size", Object.class);
            size.setAccessible(true);
            return (int) size.invoke(null, field.get(channel));
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
    }

    /** True if the thread is parked in the kernel. */
    static boolean parked(Thread t) {
        Thread.State s = t.getState();
        return Parked.waitOf(t) != null
                && (s == Thread.State.WAITING || s == Thread.State.TIMED_WAITING);
    }
}
