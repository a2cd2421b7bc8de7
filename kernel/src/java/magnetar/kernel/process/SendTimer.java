package magnetar.kernel.process;

import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.time.Timer;

/** Sends a message when it is due. */
final class SendTimer extends Timer implements Runnable {
    private final Object to;
    private final long due;
    private final Object context;
    private Object message;

    /**
     * A timer for an address: a pid, an alias, a name, a {@link RemoteName} or an {@link Address}. The names are looked
     * up when it is due. The message carries the context values, or null.
     */
    SendTimer(Object to, long dueNanos, Object context) {
        super(dueNanos);
        this.to = to;
        this.context = context;
        this.due = dueNanos;
    }

    /**
     * Sets the message. It may contain the reference of the timer, so it is known only after the timer was
     * made.
     */
    void carry(Object what) {
        message = what;
    }

    long dueNanos() {
        return due;
    }

    // What is looked up, or written for another node, runs code of the program, which the timer thread must not.
    @Override
    protected void expire() {
        if (to instanceof Address || Send.peer(to) != null) {
            Fibers.start("timer", Fibers.Hold.STRONG, this);
        } else {
            run();
        }
    }

    @Override
    public void run() {
        Send.signal(to, message, Traffic.sends(null, to, message, context));
    }
}
