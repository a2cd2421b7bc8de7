package magnetar.kernel.process;

import magnetar.kernel.fiber.Fiber;

/**
 * Shows messages to an observer: each one that is sent, taken, lost or not handled. The tracer above sets the
 * observer and removes it.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Without an observer each method reads one field and allocates nothing.
 *   <li>The observer is called outside of all locks, on the thread that sends, takes or drops the message.
 *   <li>A message is shown as sent before another process can take it.
 * </ol>
 */
public final class Traffic {
    // Set or read by any thread.
    private static volatile Observer observer;

    private Traffic() {}

    /** What an observer learns. Its methods must not throw, block for long, or send. */
    public interface Observer {
        /**
         * A message is about to be sent.
         *
         * @param sender the current fiber, or null for a timer
         * @param context the outgoing context of the sender, or null
         * @return the context that the message carries instead, or null
         */
        Object sends(Fiber sender, Object to, Object message, Object context);

        /**
         * The current process has taken the message out of its mailbox, or got it as the answer to its call.
         *
         * @param context the context that the message carries, or null, as an answer to a call has none
         */
        void takes(Object message, Object context);

        /**
         * A message does not arrive: there is no process or no room, or the address was an alias that is closed.
         *
         * @param context the context that the message carries; null if it has none, or was not shown as sent
         */
        void loses(Object to, Object message, Object context);

        /** The current process has taken the message, and has no use for it. */
        void ignores(Object message);
    }

    /** Uses this observer from now on; null for no observer. */
    public static void observe(Observer next) {
        observer = next;
    }

    static Object sends(Fiber sender, Object to, Object message, Object context) {
        Observer o = observer;
        return o == null ? context : o.sends(sender, to, message, context);
    }

    static void takes(Object message, Object context) {
        Observer o = observer;
        if (o != null) {
            o.takes(message, context);
        }
    }

    static void loses(Object to, Object message, Object context) {
        Observer o = observer;
        if (o != null) {
            o.loses(to, message, context);
        }
    }

    /** Shows that the current process has no use for the message that it has taken. */
    public static void ignores(Object message) {
        Observer o = observer;
        if (o != null) {
            o.ignores(message);
        }
    }
}
