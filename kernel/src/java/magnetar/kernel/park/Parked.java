package magnetar.kernel.park;

import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.report.Telemetry;
import magnetar.kernel.sched.Fault;

/**
 * One wait of a thread. {@link #waitOf} reads from the thread itself what it waits for, on which object and
 * since when. No second table records that.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A waiter serves one wait and is never reused, because another thread may still hold it.
 *   <li>The thread leaves {@link #await} in one of two ways. Either the waiter is READY and its result is
 *       valid. Or the thread has taken its own claim, because time ran out or it was interrupted, and no
 *       other thread can complete the waiter.
 *   <li>If an event took the claim, the event wins over an interrupt and over the time limit. Its result is
 *       delivered, and the interrupt status stays set for the next operation.
 * </ol>
 */
public final class Parked extends Waiter {
    /** From which length on a wait on channels is told of. */
    private static final long LONG_NANOS = 100_000_000L;

    private final Fiber fiber;
    // A copy of fiber.environment(). The waking thread reads it here and so does not touch the fiber's cache
    // line, which the owner writes to all the time.
    private final Environment environment;
    private final Thread thread;
    private final WaitReason reason;
    private final Object on;
    private final long since;
    private final long id;

    // Written by the claimer before READY, read by the owner after it.
    private Object source;
    private Object result;

    // Set by the timer thread, read by the owner.
    private volatile boolean expired;

    /** A wait of the current fiber, not yet begun. */
    public Parked(Fiber fiber, WaitReason reason, Object on) {
        this.fiber = fiber;
        this.thread = Thread.currentThread();
        this.reason = reason;
        this.on = on;
        this.environment = fiber.environment();
        this.since = environment.coarseNanos();
        this.id = fiber.nextId();
    }

    /** What the thread waits for; null if it does not wait in the kernel. */
    public static WaitInfo waitOf(Thread thread) {
        Object blocker = LockSupport.getBlocker(thread);
        if (blocker instanceof WaitSign sign) {
            return sign.read();
        }
        // In a simulated environment the blocker is the Parked itself.
        return blocker instanceof Parked p ? new WaitInfo(p.reason, p.on, p.since, p.id) : null;
    }

    /**
     * What the thread has waited for, and is likely to wait for again: a channel, or the messages of a process.
     * Null if it waits in the kernel now, or has parked elsewhere since.
     */
    public static WaitInfo lastWaitOf(Thread thread) {
        return LockSupport.getBlocker(thread) instanceof WaitSign sign ? sign.readLast() : null;
    }

    @Override
    public long id() {
        return id;
    }

    @Override
    public Thread thread() {
        return thread;
    }

    /** Why the thread waits. */
    public WaitReason reason() {
        return reason;
    }

    /** The object it waits on: a channel, or a select. */
    public Object on() {
        return on;
    }

    /** When the wait began, on the clock of {@link Environment#nanoTime}. */
    public long since() {
        return since;
    }

    /** What completed the wait. */
    public Object source() {
        return source;
    }

    /** What the wait returned. */
    public Object result() {
        return result;
    }

    @Override
    public void complete(Object source, Object result) {
        this.source = source;
        this.result = result;
        setReady();
        Simulated.switchPoint();
        Simulated.recordWake(environment, thread);
        environment.unpark(thread, fiber);
    }

    /** Ends the wait by time; called by a timer. */
    public void expire() {
        expired = true;
        environment.unpark(thread, fiber);
    }

    /**
     * Parks until completed.
     *
     * @return true if completed, false if {@link #expire} came first
     * @throws InterruptedException if the thread was interrupted without a cause and nothing had been
     *     committed
     */
    public boolean await() throws InterruptedException {
        while (!isReady()) {
            if (expired && (claim() || Fault.TIME_ENDS_WAIT_WITHOUT_CLAIM.isSeeded())) {
                return false;
            }
            if (fiber.isCancelled() || thread.isInterrupted() && !fiber.putOffInterrupt()) {
                abandon();
                continue;
            }
            Simulated.switchPoint();
            WaitSign sign = WaitSign.begin(reason, on, since, id);
            try {
                environment.park(this);
            } finally {
                sign.end();
            }
            fiber.refill();
        }
        return true;
    }

    /**
     * Tells the listeners of telemetry of a wait on channels, if it has lasted for {@value #LONG_NANOS}
     * nanoseconds. Called by the owner when the wait is over.
     */
    public void tellIfLong(String operation) {
        if (Telemetry.isOn()) {
            long nanos = environment.coarseNanos() - since;
            if (nanos >= LONG_NANOS) {
                Telemetry.channelBlocked(operation, on, nanos);
            }
        }
    }

    /**
     * Takes the own claim and throws. If an event took it first, parks until the result is there and then
     * sets the interrupt again.
     */
    private void abandon() throws InterruptedException {
        if (claim()) {
            fiber.check();
            Thread.interrupted();
            throw new InterruptedException(
                    "interrupted while it waited: " + reason.words() + ". The operation had no effect");
        }
        boolean interrupted = false;
        while (!isReady()) {
            interrupted |= Thread.interrupted(); // an interrupted thread would not park
            WaitSign sign = WaitSign.begin(reason, on, since, id);
            try {
                environment.park(this);
            } finally {
                sign.end();
            }
        }
        if (interrupted) {
            thread.interrupt();
        }
    }

    @Override
    public String toString() {
        return reason.words() + " by " + thread.getName();
    }
}
