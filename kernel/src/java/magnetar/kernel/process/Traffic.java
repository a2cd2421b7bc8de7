package magnetar.kernel.process;

import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.report.Subscribers;

/**
 * Shows messages to observers: each one that is sent, taken, lost or not handled. The code above adds and
 * removes observers, such as a trace of messages.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Showing a message allocates nothing.
 *   <li>An observer is called outside of all locks, on the thread that sends, takes or drops the message.
 *   <li>A message is shown as sent before another process can take it.
 *   <li>An observer gets the context that the one before it returned.
 * </ol>
 */
public final class Traffic {
    private static final Subscribers<Observer> ALL = new Subscribers<>(new Observer[0]);

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
        default Object sends(Fiber sender, Object to, Object message, Object context) {
            return context;
        }

        /**
         * The current process has taken the message out of its mailbox, or got it as the answer to its call.
         *
         * @param context the context that the message carries, or null, as an answer to a call has none
         */
        default void takes(Object message, Object context) {}

        /**
         * A message does not arrive: there is no process or no room, or the address was an alias that is closed.
         *
         * @param context the context that the message carries; null if it has none, or was not shown as sent
         */
        default void loses(Object to, Object message, Object context) {}

        /** The current process has taken the message, and has no use for it. */
        default void ignores(Object message) {}
    }

    /** Adds an observer, after those that are there. */
    public static void add(Observer next) {
        ALL.add(next);
    }

    /** Removes an observer that was added, if it is there. */
    public static void remove(Observer gone) {
        ALL.remove(each -> each == gone);
    }

    static Object sends(Fiber sender, Object to, Object message, Object context) {
        Object carried = context;
        for (Observer each : ALL.all()) {
            carried = each.sends(sender, to, message, carried);
        }
        return carried;
    }

    static void takes(Object message, Object context) {
        for (Observer each : ALL.all()) {
            each.takes(message, context);
        }
    }

    static void loses(Object to, Object message, Object context) {
        for (Observer each : ALL.all()) {
            each.loses(to, message, context);
        }
    }

    /** Shows that the current process has no use for the message that it has taken. */
    public static void ignores(Object message) {
        for (Observer each : ALL.all()) {
            each.ignores(message);
        }
    }
}
