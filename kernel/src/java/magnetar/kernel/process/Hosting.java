package magnetar.kernel.process;

import java.util.concurrent.Callable;
import java.util.function.UnaryOperator;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.sched.Fault;

/**
 * How a process gets a thread and gives it back: it runs on a fiber to its end, goes on with other work on an empty stack, or rests without a fiber until there is
 * something to do.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A process enters and leaves its fiber under its monitor. So a signal finds either the fiber to interrupt, or none and the mailbox to close.
 *   <li>A process that rests is in the list of {@link Resting} before its waiter {@link AtRest} is in its mailbox. Whoever claims that waiter starts the next fiber.
 *   <li>A failure of the body is reported before anybody learns of the death, once.
 * </ol>
 */
public final class Hosting {
    private static final Object AT_REST = new Object();

    private Hosting() {}

    /** What runs a process: its fiber, and where a failure of the body is reported. One object, since a parked process keeps its frames. */
    interface Runner {
        Fiber runner();

        /** Reports what the body threw, before anybody learns of the death; false if that is left to the caller of {@link #run}. */
        boolean reports(Throwable thrown);
    }

    /** Drops the stack of the current process and goes on with this. */
    private static final class Continue extends Error {
        private static final long serialVersionUID = 1L;
        private final transient LocalProcess process;
        private final transient Callable<?> next;
        private final boolean atRest;
        private final transient Object context; // of the one who rests: what is unwound puts another one back

        Continue(LocalProcess process, Callable<?> next, boolean atRest, Object context) {
            super("`continue` leaves its process by this error: a (catch Throwable ..) around it has to throw it again", null, false, false);
            this.process = process;
            this.next = next;
            this.atRest = atRest;
            this.context = context;
        }
    }

    /** Never returns: this, the current, process drops its stack, and goes on with this work. */
    public static void continueWith(LocalProcess me, Callable<?> next) {
        me.fiber().check();
        throw new Continue(me, next, false, null);
    }

    /**
     * Never returns: this, the current, process drops its stack and gives its fiber back. The next message, or an exit signal, starts another one, which
     * goes on with this work. Called outside of all scopes, when it has looked through its mailbox and found nothing.
     */
    public static void rest(LocalProcess me, Callable<?> next) {
        me.fiber().check();
        throw new Continue(me, next, true, me.fiber().context());
    }

    /** True of what a process throws to drop its stack and go on: no failure. Code that catches everything throws it on. */
    public static boolean isContinue(Throwable thrown) {
        return thrown instanceof Continue;
    }

    /** The same {@code Continue}, for a process that goes on with {@code around} its next work. That of a process that rests is left as it is. */
    public static Error goingOn(Throwable thrown, UnaryOperator<Callable<?>> around) {
        Continue c = (Continue) thrown;
        return c.atRest ? c : new Continue(c.process, around.apply(c.next), false, c.context);
    }

    /**
     * Runs a process on the current fiber to its end, or until it is at rest; returns what its body threw unless that was reported, or null. Its frame is
     * on the stack for as long as the process lives, so what is done afterwards is done elsewhere.
     */
    static Throwable run(LocalProcess process, Runner on, Callable<?> work) {
        process.enter(on.runner());
        Object value;
        try {
            on.runner().check();
            value = call(process, on.runner(), work);
        } catch (Throwable t) {
            return fail(process, on, t);
        }
        if (value != AT_REST) {
            conclude(process, on.runner(), null, value);
        }
        return null;
    }

    /**
     * The report comes before the death notices: a program that ends when it learns of the death shows the report all the same. Not so if an
     * exit signal has come, which would end the operations of a hook, nor without memory, which the death gives back.
     */
    private static Throwable fail(LocalProcess process, Runner on, Throwable thrown) {
        if (thrown instanceof OutOfMemoryError) {
            dropMailbox(process);
        }
        boolean reported = false;
        try {
            reported = process.cause() == null && !(thrown instanceof OutOfMemoryError) && on.reports(thrown);
        } finally {
            conclude(process, on.runner(), thrown, null);
        }
        return reported ? null : thrown;
    }

    /** Drops what may be what fills the memory. */
    private static void dropMailbox(LocalProcess process) {
        try {
            LongQueues.ended(process.pid(), process.mailbox().size());
            process.mailbox().drop();
        } catch (OutOfMemoryError noRoom) {
            // The death closes it, and tries until there is room.
        }
    }

    private static void conclude(LocalProcess process, Fiber host, Throwable thrown, Object value) {
        try {
            process.end(thrown == null ? Words.get().normal : reasonOf(thrown), value);
        } finally {
            host.leaveRegion();
            Zombies.remove(process);
        }
    }

    /** What the language makes of it. An error may fail to say what it is: the process dies all the same. */
    private static Object reasonOf(Throwable thrown) {
        try {
            return Words.language().reason(thrown);
        } catch (OutOfMemoryError noRoom) {
            return Words.get().noMemory;
        } catch (Throwable unspeakable) {
            return thrown.getClass().getName().concat(", which failed to say what it is");
        }
    }

    private static Object call(LocalProcess process, Fiber host, Callable<?> work) throws Exception {
        Callable<?> next = work;
        for (;;) {
            try {
                return next.call();
            } catch (Continue c) {
                if (c.process != process) {
                    throw c;
                }
                next = c.next;
                if (c.atRest && rests(process, host, c)) {
                    return AT_REST;
                }
            }
        }
    }

    /** True if it is at rest: this fiber has nothing to do with it any more. False if there is something to do. */
    private static boolean rests(LocalProcess process, Fiber host, Continue c) {
        Calls.rests(process);
        process.dropEmptyLists();
        AtRest rest = new AtRest(process, c.next, c.context); // before it gives its fiber back: memory may end
        process.vacate(host);
        Resting.add(process);
        if (process.mailbox().enlist(rest) || Fault.PROCESS_IDLES_WITH_MESSAGE.isPlanted()) {
            return true;
        }
        Resting.remove(process);
        process.enter(host);
        host.setContext(c.context);
        host.check();
        return false;
    }
}
