package magnetar.kernel.process;

import java.util.concurrent.Callable;
import java.util.function.UnaryOperator;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Propagation;
import magnetar.kernel.report.NoMemory;
import magnetar.kernel.report.Reserve;
import magnetar.kernel.sched.Fault;

/**
 * How a process gets and leaves a thread. It runs on a fiber to its end. It may drop its stack and continue
 * with other work. Or it is passivated: it has no fiber while it is idle.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A process enters and leaves its fiber under its lock. So a signal finds either the fiber to
 *       interrupt, or no fiber and the mailbox to close.
 *   <li>A passivated process is in the list of {@link Passivated} before its waiter {@link PassivatedWaiter}
 *       is in its mailbox. The thread that claims the waiter starts the next fiber.
 *   <li>A failure of the body is reported once, before any other process learns of the death.
 * </ol>
 */
public final class Hosting {
    private Hosting() {}

    /** The next work of a passivated process that has context values. */
    private static final class InContext implements Callable<Object> {
        private final Callable<?> next;
        private final Object context;

        InContext(Callable<?> next, Object context) {
            this.next = next;
            this.context = context;
        }

        @Override
        public Object call() throws Exception {
            Fiber.current().takeUp(context);
            return next.call();
        }
    }

    /** Drops the stack of the current process and continues with other work. */
    private static final class Continue extends Error {
        private static final long serialVersionUID = 1L;
        private final transient LocalProcess process;
        private final transient Callable<?> next;
        private final boolean passivates;
        // Of a passivated process, because the code that is unwound restores another one.
        private final transient Object context;

        Continue(LocalProcess process, Callable<?> next, boolean passivates, Object context) {
            super("`continue` leaves its process by this error: a (catch Throwable ..) around it has to throw it again", null, false, false);
            this.process = process;
            this.next = next;
            this.passivates = passivates;
            this.context = context;
        }
    }

    /** Never returns: the current process drops its stack, and continues with this work. */
    public static void continueWith(LocalProcess me, Callable<?> next) {
        me.fiber().check();
        throw new Continue(me, next, false, null);
    }

    /**
     * Never returns: the current process drops its stack and gives up its fiber. The next message, or an exit
     * signal, starts another fiber, which continues with this work. Called outside of all scopes, after a
     * scan of the mailbox has found no message.
     */
    public static void passivate(LocalProcess me, Callable<?> next) {
        me.fiber().check();
        throw new Continue(me, next, true, me.fiber().outgoing());
    }

    /**
     * True if this is how a process drops its stack and continues, not a failure. Code that catches
     * everything throws it on.
     */
    public static boolean isContinue(Throwable thrown) {
        return thrown instanceof Continue;
    }

    /**
     * The same {@code Continue}, with {@code around} applied to the next work. For a process that is
     * passivated it is unchanged.
     */
    public static Error goingOn(Throwable thrown, UnaryOperator<Callable<?>> around) {
        Continue c = (Continue) thrown;
        return c.passivates ? c : new Continue(c.process, around.apply(c.next), false, c.context);
    }

    /**
     * Runs a process on the current fiber to its end, or until it is passivated. Returns what its body threw,
     * unless that was reported; else null. The frame of this method is on the stack for as long as the
     * process lives, so other methods do the work afterwards.
     */
    static Throwable run(LocalProcess process, Fiber on, Callable<?> work) {
        process.enter(on);
        Callable<?> next = work;
        Object value = null;
        try {
            on.check();
            for (boolean runs = true; runs; ) {
                try {
                    value = next.call();
                    runs = false;
                } catch (Continue c) {
                    next = next(process, on, c);
                    if (next == null) {
                        return null;
                    }
                }
            }
        } catch (Throwable t) {
            return fail(process, on, t);
        }
        conclude(process, on, null, value);
        return null;
    }

    /**
     * Ends a process whose body threw. The report precedes the death notices, so a program that ends on the
     * notice still shows the report. Two failures are left to the caller. After an exit signal, the
     * operations of a report hook would throw. Without memory, the death must come first, because it frees
     * some.
     */
    private static Throwable fail(LocalProcess process, Fiber on, Throwable thrown) {
        boolean full = thrown instanceof OutOfMemoryError;
        if (full) {
            Reserve.release();
            dropMailbox(process);
        }
        boolean reported = false;
        try {
            reported = process.cause() == null && !full && process.reports(thrown);
        } finally {
            conclude(process, on, thrown, null);
            NoMemory.awaited(full); // the caller may catch it and not report it
        }
        return reported ? null : thrown;
    }

    /** Drops the mailbox, whose messages may be what fills the memory. */
    private static void dropMailbox(LocalProcess process) {
        try {
            FullMemory.ended(process.pid(), process.mailbox().size());
            process.mailbox().drop();
        } catch (OutOfMemoryError noRoom) {
            // The death closes the mailbox, and retries until there is memory.
        }
    }

    private static void conclude(LocalProcess process, Fiber host, Throwable thrown, Object value) {
        try {
            process.end(thrown == null ? Dialect.get().normal : reasonOf(thrown), value);
        } finally {
            host.leave();
            Zombies.remove(process);
        }
    }

    /** The exit reason, from the codec. A Throwable whose methods throw still ends the process. */
    private static Object reasonOf(Throwable thrown) {
        try {
            return Dialect.codec().reason(thrown);
        } catch (OutOfMemoryError noRoom) {
            return Dialect.get().noMemory;
        } catch (Throwable unspeakable) {
            return thrown.getClass().getName().concat(", which failed to say what it is");
        }
    }

    /** The work that the process continues with; null if it was passivated. */
    private static Callable<?> next(LocalProcess process, Fiber host, Continue c) {
        if (c.process != process) {
            throw c;
        }
        return c.passivates && tryPassivate(process, host, c) ? null : c.next;
    }

    /**
     * Passivates the process: true if it is idle and this fiber is done with it, false if there is work to
     * do.
     */
    private static boolean tryPassivate(LocalProcess process, Fiber host, Continue c) {
        Calls.passivates(process);
        process.dropEmptyLists();
        // Allocated before the process leaves its fiber: memory may run out.
        PassivatedWaiter rest = new PassivatedWaiter(process, c.context == null ? c.next : new InContext(c.next, c.context));
        process.vacate(host);
        Passivated.add(rest);
        if (process.mailbox().enlist(rest) || Fault.PROCESS_IDLES_WITH_MESSAGE.isSeeded()) {
            return true;
        }
        Passivated.remove(rest);
        process.enter(host);
        host.setContext(Propagation.valuesOf(c.context)); // the thread has kept its thread-locals
        host.check();
        return false;
    }
}
