package magnetar.kernel.process;

import magnetar.kernel.park.Parked;

/**
 * The reference of a call whose caller waits for nothing else: what is sent to it goes to the waiting caller, past its mailbox.
 *
 * <p>Invariant: whoever claims the waiter ends the call: the first message that is sent to it, the death of the watched process, the time, an interrupt, or the
 * end of the caller. So one of them comes, once, and what is sent later is dropped.
 */
final class Call extends Monitor {
    /** What a call ends with when its caller has to end. */
    static final Object NOTHING = new Object();

    final long deadline;
    private final Asking in;

    // Set before others have the reference, taken back by the caller: what is sent later comes to nobody.
    private Parked waiter;

    Call(long id, Pid maker, long mark, Object object, Asking in, Parked waiter, long deadline) {
        super(id, in.incarnation(), maker, mark, in.watched, object, Words.get().down);
        this.in = in;
        this.waiter = waiter;
        this.deadline = deadline;
    }

    /** What the caller waits with; null if it waits no longer. */
    Parked waiter() {
        return waiter;
    }

    @Override
    public boolean isPlain() {
        return false;
    }

    @Override
    boolean isAddress() {
        Parked w = waiter;
        return w != null && w.isOpen();
    }

    /** True if time ends it without a timer of its own. Called by the caller. */
    boolean isTimed() {
        return in.limits(this);
    }

    /** Ends the call with this message, unless it has ended. */
    void answer(Object message) {
        Parked w = waiter;
        if (w != null && w.claim()) {
            w.complete(this, message);
        }
    }

    /** The caller waits no longer. */
    void close() {
        in.close();
        waiter = null;
    }
}
