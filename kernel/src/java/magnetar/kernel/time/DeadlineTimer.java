package magnetar.kernel.time;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Parked;
import magnetar.kernel.sched.Fault;

/**
 * A reusable deadline timer, for the consecutive waits of one fiber. Most of these end long before their
 * limit, so one timer stays in the wheel for all of them. A wait only writes its deadline. A timer that fires
 * too early sets the next one, for the wait of that moment.
 *
 * <p>Invariants:
 * <ol>
 *   <li>During a limited wait there is a timer due at its deadline or earlier. T1, the owner, publishes its
 *       waiter, then reads {@code armed}. T2, the timer, clears {@code armed}, then reads the waiter. At
 *       least one sees the other and sets the next timer.
 *   <li>A wait does not expire before its deadline. The timer reads the waiter before the deadline. The owner
 *       sets the deadline before it publishes the waiter, and removes it before it publishes the next one. So
 *       the timer reads the deadline of that waiter; or it reads a later one, and then that waiter has ended
 *       already.
 * </ol>
 *
 * <p>Source: the timers of Linux's TCP, which are not moved at each acknowledgement. Rejected: adding and
 * cancelling a timer for each wait, because all callers would contend for the wheel's lock twice per call.
 */
public abstract class DeadlineTimer {
    private static final long NONE = Long.MAX_VALUE;
    private static final VarHandle ARMED;

    static {
        try {
            ARMED = MethodHandles.lookup().findVarHandle(DeadlineTimer.class, "armed", Armed.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final Environment environment;

    // Written by the owner and by the timer thread.
    private volatile Armed armed;

    // Written by the owner, published by its waiter.
    private long deadline = NONE;

    /** A timer for a fiber of this environment. */
    protected DeadlineTimer(Environment environment) {
        this.environment = environment;
    }

    /** The waiter that the owner waits with, or null. */
    protected abstract Parked waiter();

    /** Sets the deadline of the next wait. Called before other threads can find its waiter. */
    public void set(long instant) {
        deadline = instant;
    }

    /**
     * Called once other threads can find the waiter. False if the timer in the wheel would come too late, so
     * that this wait needs a timer of its own.
     */
    public boolean arm() {
        Armed b = armed;
        while (b == null) {
            if (arm(deadline)) {
                return true;
            }
            b = armed; // the timer thread has just set one, which may have fired already
        }
        return b.dueNanos <= deadline || Fault.LATE_TIMER_WILL_DO.isSeeded();
    }

    /** Called when the wait has ended. */
    public void lift() {
        deadline = NONE;
    }

    /** Removes the timer from the wheel. */
    public void end() {
        Armed b = armed;
        if (b != null && Wheel.of(environment).cancel(b)) {
            armed = null;
        }
    }

    private boolean arm(long instant) {
        Armed next = new Armed(this, instant);
        Simulated.switchPoint();
        if (!ARMED.compareAndSet(this, null, next)) {
            return false;
        }
        Wheel.of(environment).add(next);
        return true;
    }

    private void fire() {
        armed = null;
        Simulated.switchPoint();
        Parked waiter = waiter();
        long due = deadline;
        if (waiter != null && due != NONE) {
            if (due <= environment.nanoTime()) {
                waiter.expire();
            } else {
                arm(due);
            }
        }
    }

    private static final class Armed extends Timer {
        private final DeadlineTimer owner;

        Armed(DeadlineTimer owner, long dueNanos) {
            super(dueNanos);
            this.owner = owner;
        }

        @Override
        Parked waiter() {
            return owner.waiter();
        }

        @Override
        long limit() {
            return owner.deadline;
        }

        @Override
        protected void expire() {
            owner.fire();
        }
    }
}
