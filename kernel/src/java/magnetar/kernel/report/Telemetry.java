package magnetar.kernel.report;

import java.util.Arrays;

/**
 * Tells listeners of events in the life of processes, channels and scopes.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Without a listener each event reads one field, allocates nothing and links no call site. So a process
 *       may die without memory.
 *   <li>A listener is called outside of all locks, on the thread that causes the event.
 *   <li>Nothing that a listener throws reaches the caller. The first error of each listener is reported.
 * </ol>
 *
 * <p>The types of the arguments are those of the packages above: a pid, a channel, a scope.
 */
public final class Telemetry {
    // Set under the lock of the class, read by any thread. Null for no listener, so that a check is one read.
    private static volatile Listening[] all;

    private Telemetry() {}

    /** What a listener learns. Its methods neither wait nor send messages. */
    public interface Listener {
        /**
         * A process is about to run.
         *
         * @param parent the pid of the process that started it, or null
         */
        default void spawned(Object pid, Object parent) {}

        /** A process has died. The other processes learn of it afterwards. */
        default void exited(Object pid, Object reason) {}

        /** A mailbox has reached the length at which a warning is due. */
        default void mailboxGrew(Object pid, long messages) {}

        /**
         * The current fiber has waited for so long in an operation on channels. It may have been cancelled.
         *
         * @param operation a word: take, put or alts
         */
        default void channelBlocked(String operation, Object on, long nanos) {}

        /** The deadline of a scope has cancelled it. */
        default void scopeTimedOut(Object scope) {}
    }

    private static final class Listening {
        private final Listener listener;

        // Set or read by any thread. Two threads may both report a first error.
        private volatile boolean hasFailed;

        private final String site;

        Listening(Listener listener) {
            this.listener = listener;
            this.site = "the listener ".concat(listener.getClass().getName());
        }

        // A process that has just died announces its death afterwards. So nothing may be thrown here, not even
        // for lack of memory or of stack.
        private void failed(Throwable error) {
            try {
                if (!hasFailed) {
                    hasFailed = true;
                    Failures.report(site, Thread.currentThread(), error);
                }
            } catch (Throwable noReport) {
                // The first error has happened, and its report has failed too.
            }
        }
    }

    /** Adds a listener. */
    public static synchronized void add(Listener listener) {
        Listening[] now = all;
        Listening[] next = now == null ? new Listening[1] : Arrays.copyOf(now, now.length + 1);
        next[next.length - 1] = new Listening(listener);
        all = next;
    }

    /** Removes a listener, if it is there. */
    public static synchronized void remove(Listener listener) {
        Listening[] now = all;
        int at = 0;
        while (now != null && at < now.length && now[at].listener != listener) {
            at++;
        }
        if (now == null || at == now.length) {
            return;
        }
        Listening[] next = Arrays.copyOf(now, now.length - 1);
        System.arraycopy(now, at + 1, next, at, next.length - at);
        all = next.length == 0 ? null : next;
    }

    /** True if there is a listener. */
    public static boolean isOn() {
        return all != null;
    }

    /** Tells that a process is about to run. */
    public static void spawned(Object pid, Object parent) {
        Listening[] told = all;
        for (int i = 0; told != null && i < told.length; i++) {
            try {
                told[i].listener.spawned(pid, parent);
            } catch (Throwable error) {
                told[i].failed(error);
            }
        }
    }

    /** Tells that a process has died. */
    public static void exited(Object pid, Object reason) {
        Listening[] told = all;
        for (int i = 0; told != null && i < told.length; i++) {
            try {
                told[i].listener.exited(pid, reason);
            } catch (Throwable error) {
                told[i].failed(error);
            }
        }
    }

    /** Tells that a mailbox is long. */
    public static void mailboxGrew(Object pid, long messages) {
        Listening[] told = all;
        for (int i = 0; told != null && i < told.length; i++) {
            try {
                told[i].listener.mailboxGrew(pid, messages);
            } catch (Throwable error) {
                told[i].failed(error);
            }
        }
    }

    /** Tells that an operation on channels has waited for so long. */
    public static void channelBlocked(String operation, Object on, long nanos) {
        Listening[] told = all;
        for (int i = 0; told != null && i < told.length; i++) {
            try {
                told[i].listener.channelBlocked(operation, on, nanos);
            } catch (Throwable error) {
                told[i].failed(error);
            }
        }
    }

    /** Tells that the deadline of a scope has passed. */
    public static void scopeTimedOut(Object scope) {
        Listening[] told = all;
        for (int i = 0; told != null && i < told.length; i++) {
            try {
                told[i].listener.scopeTimedOut(scope);
            } catch (Throwable error) {
                told[i].failed(error);
            }
        }
    }
}
