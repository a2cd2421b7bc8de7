package magnetar.kernel.channel;

/** An object that values can be put on: a {@link Channel}, or a port of a program's own. */
public interface WritePort {
    /** Puts a value now, or queues the handler; returns true, false if closed, or {@link Port#PENDING} if queued. */
    Object put(Object value, Handler handler);
}
