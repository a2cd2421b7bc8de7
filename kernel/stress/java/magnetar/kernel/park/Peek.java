package magnetar.kernel.park;

/** Looks at what only this room may see. */
public final class Peek {
    /** A world in which parking looks again at once, and nobody is woken: one thread may play another's part. */
    private static final World AWAKE = new World() {
        @Override
        public void park(Parked waiter) {
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
        return new Fiber(thread, AWAKE);
    }

    /** A waiter that any thread may await. */
    public static Parked waiter() {
        return new Parked(fiber(UNSTARTED), WaitReason.CHANNEL_TAKE, null);
    }
}
