package magnetar.kernel.park;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.sched.Fault;

/**
 * The record of what a thread waits for, published for other threads as the thread's
 * {@link LockSupport#getBlocker blocker}.
 *
 * <p>The first wait installs it, and it stays the blocker when the wait is over. It also keeps the reason and
 * the object of a wait that is likely to be repeated. Storing a young object into an old thread at each wait
 * would cost a fence and work for the collector (docs/decisions/0023). So an idle thread keeps the last
 * channel or pid that it waited on.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Only the waiting thread writes to it. {@code version} is odd exactly while the other fields describe
 *       a wait: it is written after them when a wait begins, and before them when it ends. A reader that sees
 *       the same odd version before and after reading the fields has read one wait.
 *   <li>Only the thread refers to it. So an object that it keeps becomes collectable together with the
 *       thread.
 * </ol>
 */
final class WaitSign {
    private static final VarHandle VERSION;

    static {
        try {
            VERSION = MethodHandles.lookup().findVarHandle(WaitSign.class, "version", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private WaitReason reason;
    private Object on;
    private long since;
    private long number;
    private volatile int version;

    private WaitSign() {}

    /**
     * Publishes that the current thread is about to park. The parameters are the fields of the {@link Wait}.
     */
    static WaitSign begin(WaitReason reason, Object on, long since, long number) {
        WaitSign sign = ofCurrent();
        sign.write(reason, on, since, number);
        VERSION.setRelease(sign, sign.version + 1);
        return sign;
    }

    // Makes a new sign if other code that parks has replaced the blocker.
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

    /** Publishes that the wait is over. */
    void end() {
        VERSION.setRelease(this, version + 1);
        VarHandle.storeStoreFence();
        if (!reason.isRepeated()) {
            on = null;
        }
    }

    /** The current wait; null if the thread does not wait, or if a wait began or ended during the read. */
    WaitInfo read() {
        int before = version;
        WaitInfo seen = new WaitInfo(reason, on, since, number);
        VarHandle.loadLoadFence();
        return before % 2 == 0 || version != before && !Fault.WAIT_IS_READ_ONCE.isSeeded() ? null : seen;
    }

    /** The last wait, if it is over and is likely to be repeated; null else, or if a wait began during the read. */
    WaitInfo readLast() {
        int before = version;
        WaitInfo seen = new WaitInfo(reason, on, since, number);
        VarHandle.loadLoadFence();
        return before % 2 != 0 || version != before || seen.on() == null ? null : seen;
    }
}
