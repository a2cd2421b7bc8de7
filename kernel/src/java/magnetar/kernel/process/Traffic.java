package magnetar.kernel.process;

import java.util.Arrays;
import magnetar.kernel.fiber.Fiber;

/**
 * Shows messages to observers: each one that is sent, taken, lost or not handled. The code above adds and
 * removes observers, such as a trace of messages.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Without an observer each method reads one field and allocates nothing.
 *   <li>An observer is called outside of all locks, on the thread that sends, takes or drops the message.
 *   <li>A message is shown as sent before another process can take it.
 *   <li>An observer gets the context that the one before it returned.
 * </ol>
 */
public final class Traffic {
    // Set under the lock of the class, read by any thread. Null for no observer, so that a check is one read.
    private static volatile Observer[] all;

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
    public static synchronized void add(Observer next) {
        Observer[] now = all == null ? new Observer[1] : Arrays.copyOf(all, all.length + 1);
        now[now.length - 1] = next;
        all = now;
    }

    /** Removes an observer that was added, if it is there. */
    public static synchronized void remove(Observer gone) {
        Observer[] now = all;
        for (int i = 0; now != null && i < now.length; i++) {
            if (now[i] == gone) {
                Observer[] left = Arrays.copyOf(now, now.length - 1);
                System.arraycopy(now, i + 1, left, i, left.length - i);
                all = left.length == 0 ? null : left;
                return;
            }
        }
    }

    static Object sends(Fiber sender, Object to, Object message, Object context) {
        Observer[] told = all;
        Object carried = context;
        for (int i = 0; told != null && i < told.length; i++) {
            carried = told[i].sends(sender, to, message, carried);
        }
        return carried;
    }

    static void takes(Object message, Object context) {
        Observer[] told = all;
        for (int i = 0; told != null && i < told.length; i++) {
            told[i].takes(message, context);
        }
    }

    static void loses(Object to, Object message, Object context) {
        Observer[] told = all;
        for (int i = 0; told != null && i < told.length; i++) {
            told[i].loses(to, message, context);
        }
    }

    /** Shows that the current process has no use for the message that it has taken. */
    public static void ignores(Object message) {
        Observer[] told = all;
        for (int i = 0; told != null && i < told.length; i++) {
            told[i].ignores(message);
        }
    }
}
