package magnetar.kernel.park;

import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;

/** Gives the tests access to members of this package. */
public final class Peek {
    /**
     * An environment in which park returns at once and unpark does nothing, so that one thread may play the
     * part of another.
     */
    private static final Environment AWAKE = new Environment() {
        @Override
        public void park(Object waiter) {
            Thread.onSpinWait();
        }

        @Override
        public void unpark(Thread thread, Fiber fiber) {}
    };

    private static final Thread UNSTARTED = Thread.ofPlatform().unstarted(() -> {});

    private Peek() {}

    /** True once the result is published. */
    public static boolean isReady(Waiter waiter) {
        return waiter.isReady();
    }

    /** A fiber whose thread never runs. */
    public static Fiber fiber(Thread thread) {
        return Fibers.adopt(thread, AWAKE);
    }

    /** A waiter that any thread may await. */
    public static Parked waiter() {
        return new Parked(fiber(UNSTARTED), WaitReason.CHANNEL_TAKE, null);
    }
}
