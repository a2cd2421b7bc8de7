package magnetar.kernel.time;

import magnetar.kernel.park.Parked;

/** Ends the wait of a parked fiber. */
public final class Expiry extends Timer {
    private final Parked waiter;

    /** Will end the wait at this instant, unless it has ended before. */
    public Expiry(Parked waiter, long dueNanos) {
        super(dueNanos);
        this.waiter = waiter;
    }

    @Override
    Parked waiter() {
        return waiter;
    }

    @Override
    protected void expire() {
        waiter.expire();
    }
}
