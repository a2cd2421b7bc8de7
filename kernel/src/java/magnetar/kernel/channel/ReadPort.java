package magnetar.kernel.channel;

/** An object that values can be taken from: a {@link Channel}, or a port of a program's own. */
public interface ReadPort {
    /** Takes a value now, or queues the handler; returns the value, null if closed, or {@link Port#PENDING} if queued. */
    Object take(Handler handler);
}
