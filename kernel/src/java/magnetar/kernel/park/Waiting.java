package magnetar.kernel.park;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.locks.LockSupport;

/**
 * The waits of one thread, one after the other, as others see them: the thread's {@link LockSupport#getBlocker blocker}, from its first wait on.
 *
 * <p>It stays the blocker when a wait is over, and keeps reason and object, since most threads wait for the same again: to store a young waiter into
 * an old thread each time was a fence, and work for the collector, 7 % of a rendezvous. What is waited for once is not kept.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Only the thread writes to it. {@code since} is written after all else when a wait begins, and first when it is over.
 *   <li>Nothing but the thread refers to it: what it keeps lives no longer than a thread that nobody can reach.
 * </ol>
 */
final class Waiting {
    private static final long OVER = Long.MIN_VALUE;
    private static final VarHandle SINCE;

    static {
        try {
            SINCE = MethodHandles.lookup().findVarHandle(Waiting.class, "since", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private WaitReason reason;
    private Object on;
    private long number;
    private volatile long since = OVER;

    private Waiting() {}

    /** The current thread is about to park with this waiter. */
    static Waiting begin(Parked waiter) {
        Waiting w = ofCurrent();
        w.note(waiter.reason(), waiter.on());
        w.number = waiter.id();
        SINCE.setRelease(w, waiter.since());
        return w;
    }

    // Other code that parks has taken its blocker away.
    private static Waiting ofCurrent() {
        if (LockSupport.getBlocker(Thread.currentThread()) instanceof Waiting w) {
            return w;
        }
        Waiting made = new Waiting();
        LockSupport.setCurrentBlocker(made);
        return made;
    }

    private void note(WaitReason why, Object what) {
        if (reason != why) {
            reason = why;
        }
        if (on != what) {
            on = what;
        }
    }

    /** The thread goes on. */
    void end() {
        SINCE.setRelease(this, OVER);
        VarHandle.storeStoreFence();
        if (!reason.isRepeated()) {
            on = null;
        }
    }

    /** The wait at this instant; null if there is none, or one has begun or ended while it was looked at. */
    Wait now() {
        long begin = since;
        Wait seen = new Wait(reason, on, begin, number);
        VarHandle.loadLoadFence();
        return begin == OVER || since != begin || number != seen.number() ? null : seen;
    }
}
