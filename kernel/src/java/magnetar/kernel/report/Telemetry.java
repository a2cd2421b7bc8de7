package magnetar.kernel.report;

import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;

/**
 * Tells listeners of events in the life of processes, channels and scopes. A process that a thread is for a
 * while, as for a call, is none here.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Who causes an event asks first whether there is a listener. Without one, that allocates nothing and
 *       links no call site. So a process may die without memory.
 *   <li>A listener is called outside of all locks, on the thread that causes the event.
 *   <li>Nothing that a listener throws reaches the caller. The first error of each listener is reported.
 * </ol>
 *
 * <p>The types of the arguments are those of the packages above: a pid, a channel, a scope.
 */
public final class Telemetry {
    private static final CopyOnWriteArrayList<Listening> ALL = new CopyOnWriteArrayList<>();

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

        /**
         * The supervisor, which is the current process, is about to start a child again that has ended. If its
         * strategy restarts more children with it, that is one restart.
         *
         * @param supervisor the name or the pid of the supervisor
         * @param child the id of the child; its key, a number, if the supervisor has children without ids
         * @param reason what the child ended for
         */
        default void restarted(Object supervisor, Object child, Object reason) {}

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
    public static void add(Listener listener) {
        ALL.add(new Listening(listener));
    }

    /** Removes a listener, if it is there. */
    public static void remove(Listener listener) {
        ALL.removeIf(each -> each.listener == listener);
    }

    /** True if there is a listener. */
    public static boolean isOn() {
        return !ALL.isEmpty();
    }

    private static void tell(Consumer<Listener> event) {
        for (Listening each : ALL) {
            try {
                event.accept(each.listener);
            } catch (Throwable error) {
                each.failed(error);
            }
        }
    }

    /** Tells that a process is about to run. */
    public static void spawned(Object pid, Object parent) {
        tell(to -> to.spawned(pid, parent));
    }

    /** Tells that a process has died. Throws nothing, since its death is announced afterwards. */
    public static void exited(Object pid, Object reason) {
        try {
            tell(to -> to.exited(pid, reason));
        } catch (Throwable noRoom) {
            // There is no memory or stack to tell of it.
        }
    }

    /** Tells that a supervisor starts a child again. */
    public static void restarted(Object supervisor, Object child, Object reason) {
        tell(to -> to.restarted(supervisor, child, reason));
    }

    /** Tells that a mailbox is long. */
    public static void mailboxGrew(Object pid, long messages) {
        tell(to -> to.mailboxGrew(pid, messages));
    }

    /** Tells that an operation on channels has waited for so long. */
    public static void channelBlocked(String operation, Object on, long nanos) {
        tell(to -> to.channelBlocked(operation, on, nanos));
    }

    /** Tells that the deadline of a scope has passed. */
    public static void scopeTimedOut(Object scope) {
        tell(to -> to.scopeTimedOut(scope));
    }
}
