package magnetar.kernel.report;

/**
 * Tells its listeners of events in the life of processes, channels and scopes, on the thread that causes the
 * event. A listener of {@code magnetar.telemetry} is behind one of these, with a queue and a thread of its own.
 * A thread that is a process for a while, as for a call, is not told of.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Telling of an event allocates nothing and links no call site, so a process may die without memory.
 *   <li>A listener is called outside of all locks, on the thread that causes the event.
 *   <li>Nothing that a listener throws reaches the caller. The first error of each listener is reported.
 * </ol>
 *
 * <p>The types of the arguments are those of the packages above: a pid, a channel, a scope.
 */
public final class Telemetry {
    private static final Subscribers<Listening> ALL = new Subscribers<>(new Listening[0]);

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
        ALL.remove(each -> each.listener == listener);
    }

    /** True if there is a listener. */
    public static boolean isOn() {
        return !ALL.isEmpty();
    }

    /** Tells that a process is about to run. */
    public static void spawned(Object pid, Object parent) {
        for (Listening each : ALL.all()) {
            try {
                each.listener.spawned(pid, parent);
            } catch (Throwable error) {
                each.failed(error);
            }
        }
    }

    /** Tells that a process has died. */
    public static void exited(Object pid, Object reason) {
        for (Listening each : ALL.all()) {
            try {
                each.listener.exited(pid, reason);
            } catch (Throwable error) {
                each.failed(error);
            }
        }
    }

    /** Tells that a supervisor starts a child again. */
    public static void restarted(Object supervisor, Object child, Object reason) {
        for (Listening each : ALL.all()) {
            try {
                each.listener.restarted(supervisor, child, reason);
            } catch (Throwable error) {
                each.failed(error);
            }
        }
    }

    /** Tells that a mailbox is long. */
    public static void mailboxGrew(Object pid, long messages) {
        for (Listening each : ALL.all()) {
            try {
                each.listener.mailboxGrew(pid, messages);
            } catch (Throwable error) {
                each.failed(error);
            }
        }
    }

    /** Tells that an operation on channels has waited for so long. */
    public static void channelBlocked(String operation, Object on, long nanos) {
        for (Listening each : ALL.all()) {
            try {
                each.listener.channelBlocked(operation, on, nanos);
            } catch (Throwable error) {
                each.failed(error);
            }
        }
    }

    /** Tells that the deadline of a scope has passed. */
    public static void scopeTimedOut(Object scope) {
        for (Listening each : ALL.all()) {
            try {
                each.listener.scopeTimedOut(scope);
            } catch (Throwable error) {
                each.failed(error);
            }
        }
    }
}
