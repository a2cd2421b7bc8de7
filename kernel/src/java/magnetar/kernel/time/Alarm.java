package magnetar.kernel.time;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.World;
import magnetar.kernel.park.Parked;
import magnetar.kernel.sched.Fault;

/**
 * The limit of one wait after the other of the same fiber, most of which end long before: one timer stays in the wheel for all of them. A wait says only until
 * when it lasts. The timer that goes off too early is set anew, for the wait that is under way then.
 *
 * <p>Invariants:
 * <ol>
 *   <li>While a limited wait is under way, there is a timer that is due at its end or before: the owner looks for it when others can find its waiter; the timer
 *       that goes off takes itself out of {@code bell} before it looks for the waiter. So one of both sets the next one.
 *   <li>A wait ends by time no earlier than it said: the waiter is read before the deadline, and the deadline of a wait is set before its waiter is found and
 *       taken back before the next one is. So a deadline that is read is that of the waiter, or of a later one, when the waiter has ended already.
 * </ol>
 *
 * <p>Source: the timers of Linux's TCP, which are not moved at each acknowledgement. Refused: a timer added and cancelled for each wait (a lock that all
 * callers meet under, twice a call).
 */
public abstract class Alarm {
    private static final long NONE = Long.MAX_VALUE;
    private static final VarHandle BELL;

    static {
        try {
            BELL = MethodHandles.lookup().findVarHandle(Alarm.class, "bell", Bell.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final World world;

    // Set by the owner and by the timer thread.
    private volatile Bell bell;

    // Written by the owner, published by its waiter.
    private long deadline = NONE;

    /** For fibers of this world. */
    protected Alarm(World world) {
        this.world = world;
    }

    /** What the owner waits with, if it waits. */
    protected abstract Parked waiter();

    /** The owner is about to wait until this instant at most: called before its waiter can be found. */
    public void set(long instant) {
        deadline = instant;
    }

    /** The waiter can be found. False if the timer that is in the wheel would come too late: this wait needs one of its own. */
    public boolean arm() {
        Bell b = bell;
        while (b == null) {
            if (arm(deadline)) {
                return true;
            }
            b = bell; // the timer thread has just set one, or that one has rung already
        }
        return b.dueNanos <= deadline || Fault.LATE_TIMER_WILL_DO.isPlanted();
    }

    /** The wait has ended. */
    public void lift() {
        deadline = NONE;
    }

    /** Takes the timer out of the wheel. */
    public void end() {
        Bell b = bell;
        if (b != null && Wheel.of(world).cancel(b)) {
            bell = null;
        }
    }

    private boolean arm(long instant) {
        Bell next = new Bell(this, instant);
        Simulated.switchPoint();
        if (!BELL.compareAndSet(this, null, next)) {
            return false;
        }
        Wheel.of(world).add(next);
        return true;
    }

    private void ring() {
        bell = null;
        Simulated.switchPoint();
        Parked waiter = waiter();
        long due = deadline;
        if (waiter != null && due != NONE) {
            if (due <= world.nanoTime()) {
                waiter.expire();
            } else {
                arm(due);
            }
        }
    }

    private static final class Bell extends Timer {
        private final Alarm alarm;

        Bell(Alarm alarm, long dueNanos) {
            super(dueNanos);
            this.alarm = alarm;
        }

        @Override
        protected void expire() {
            alarm.ring();
        }
    }
}
