package magnetar.kernel.park;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.sched.Fault;

/**
 * The sign that a thread hangs out while it waits, for others to read: its {@link LockSupport#getBlocker blocker}, from its first wait on.
 *
 * <p>It stays the blocker when a wait is over, and keeps reason and object where the thread is likely to wait for the same again, since to store a young
 * object into an old thread each time is a fence, and work for the collector (docs/decisions/0023). So a thread keeps the channel, or the pid of the process, that
 * it waited on last, until it waits again.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Only the thread writes to it. {@code turn} is odd exactly while the rest tells the wait: it is written after the rest when a wait begins, and before
 *       the rest when it is over. Whoever reads the same odd turn before and after has read one wait.
 *   <li>Nothing but the thread refers to it: what it keeps lives no longer than a thread that nobody can reach.
 * </ol>
 */
final class WaitSign {
    private static final VarHandle TURN;

    static {
        try {
            TURN = MethodHandles.lookup().findVarHandle(WaitSign.class, "turn", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private WaitReason reason;
    private Object on;
    private long since;
    private long number;
    private volatile int turn;

    private WaitSign() {}

    /** The current thread is about to park; the rest is what a {@link Wait} tells. */
    static WaitSign begin(WaitReason reason, Object on, long since, long number) {
        WaitSign sign = ofCurrent();
        sign.write(reason, on, since, number);
        TURN.setRelease(sign, sign.turn + 1);
        return sign;
    }

    // Other code that parks has taken its blocker away.
    private static WaitSign ofCurrent() {
        if (LockSupport.getBlocker(Thread.currentThread()) instanceof WaitSign sign) {
            return sign;
        }
        WaitSign made = new WaitSign();
        LockSupport.setCurrentBlocker(made);
        return made;
    }

    private void write(WaitReason nextReason, Object nextOn, long nextSince, long nextNumber) {
        if (reason != nextReason) {
            reason = nextReason;
        }
        if (on != nextOn) {
            on = nextOn;
        }
        since = nextSince;
        number = nextNumber;
    }

    /** The thread goes on. */
    void end() {
        TURN.setRelease(this, turn + 1);
        VarHandle.storeStoreFence();
        if (!reason.isRepeated()) {
            on = null;
        }
    }

    /** The wait at this instant; null if there is none, or one has begun or ended while it was looked at. */
    Wait read() {
        int before = turn;
        Wait seen = new Wait(reason, on, since, number);
        VarHandle.loadLoadFence();
        return before % 2 == 0 || turn != before && !Fault.WAIT_IS_READ_ONCE.isPlanted() ? null : seen;
    }
}
