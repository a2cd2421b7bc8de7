package magnetar.kernel.process;

import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.StackRoom;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Wheel;

/** Timers that send a message. */
public final class SendTimers {
    private SendTimers() {}

    /** The reference of a timer. */
    private static final class TimerRef extends Ref {
        private final SendTimer timer;

        TimerRef(long id, SendTimer timer) {
            super(id, Refs.creation(), null, 0);
            this.timer = timer;
        }
    }

    /** True if the reference belongs to a timer. One that was read from text is not. */
    public static boolean isTimer(Ref ref) {
        return ref instanceof TimerRef;
    }

    /**
     * Sends the message after so many nanoseconds. With {@code tagged} the message is wrapped together with
     * the reference.
     */
    public static Ref after(long nanos, Object to, Object message, boolean tagged) {
        Fiber fiber = Fiber.current();
        fiber.enter();
        SendTimer timer = new SendTimer(to, Durations.deadline(fiber.environment().nanoTime(), nanos), contextFor(fiber, to));
        TimerRef ref = new TimerRef(Refs.next(fiber), timer);
        timer.carry(tagged ? Dialect.codec().timeout(ref, message) : message);
        if (!Send.isExiting(LocalProcess.of(fiber))) {
            Wheel.of(fiber.environment()).add(timer);
        }
        return ref;
    }

    /** The context values of the message, or null. The timer of a process for itself belongs to no other work. */
    private static Object contextFor(Fiber fiber, Object to) {
        Object context = fiber.outgoing();
        return context == null || isOwn(fiber, to) ? null : context;
    }

    private static boolean isOwn(Fiber fiber, Object to) {
        LocalProcess me = LocalProcess.of(fiber);
        return me != null && (to == me.pid() || Names.find(to) == me);
    }

    /** Stops a timer. Returns the nanoseconds that were left, or -1 if it has sent or was stopped. */
    public static long cancel(Ref ref) {
        StackRoom.touch();
        Fiber fiber = Fiber.current();
        return ref instanceof TimerRef t && Wheel.of(fiber.environment()).cancel(t.timer) ? left(fiber, t.timer) : -1;
    }

    /** The nanoseconds until the timer sends, or -1 if it has sent or was stopped. */
    public static long read(Ref ref) {
        StackRoom.touch();
        Fiber fiber = Fiber.current();
        return ref instanceof TimerRef t && Wheel.of(fiber.environment()).isWaiting(t.timer) ? left(fiber, t.timer) : -1;
    }

    private static long left(Fiber fiber, SendTimer timer) {
        return Math.max(0, timer.dueNanos() - fiber.environment().nanoTime());
    }
}
