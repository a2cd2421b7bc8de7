package magnetar.kernel.process;

import java.util.Map;
import java.util.function.Predicate;
import magnetar.kernel.fiber.Exit;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.StackRoom;
import magnetar.kernel.park.Latch;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.Source;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Waits;

/**
 * The owner's side of a mailbox: takes messages out of it, unless the process is suspended, and reports them
 * to the tracer.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Only the owner receives. It scans in one receive at a time: a matcher that receives is refused.
 *   <li>A message that a receive does not take keeps its place.
 *   <li>While {@code suspensions} is above zero, {@code suspended} is a closed latch, and no message is
 *       taken. A message that was taken before stays taken.
 * </ol>
 */
public final class Receiver {
    /** The result of {@link #next} for a message that is null. */
    public static final Object NULL = new Object();

    private static final Matcher ANY = message -> message == null ? NULL : message;

    private final LocalProcess process;
    private final Mailbox mailbox;

    // Written under the lock of the process, read by any thread.
    private volatile Latch suspended;

    // Set or read by any thread.
    private volatile Pid tracer;

    // Guarded by the lock of the process.
    private int suspensions;

    Receiver(LocalProcess process, Mailbox mailbox) {
        this.process = process;
        this.mailbox = mailbox;
    }

    Mailbox mailbox() {
        return mailbox;
    }

    // --- receiving ---------------------------------------------------------------------------------------------------

    /**
     * Takes the first message, in order of arrival, that the matcher accepts. The others stay. Called by the
     * owner.
     *
     * @param nanos how long to wait; {@link Long#MAX_VALUE} for no limit
     * @param mark the number of the last message to skip; 0 skips none
     * @return the matcher's result; null if time ran out
     */
    public Object receive(Matcher matcher, long nanos, long mark) throws InterruptedException {
        Fiber fiber = process.fiber();
        fiber.enter();
        long deadline = 0;
        Node from = mailbox.after(mark);
        for (;;) {
            Object taken = take(matcher, from);
            if (taken != null || nanos <= 0) {
                return taken;
            }
            boolean first = deadline == 0;
            deadline = first ? Waits.deadline(fiber.environment(), nanos) : deadline;
            if (!first && Waits.isOver(fiber.environment(), deadline) || !await(fiber, deadline)) {
                return null;
            }
            from = null;
        }
    }

    /**
     * Takes the next message, whatever it is. Called by the owner.
     *
     * @return the message, {@link #NULL} for null; null if time ran out
     */
    public Object next(long nanos) throws InterruptedException {
        return receive(ANY, nanos, 0);
    }

    /** Takes a message from this node on, or one that arrives meanwhile; null if no message matches. */
    private Object take(Matcher matcher, Node from) throws InterruptedException {
        awaitResumption();
        if (mailbox.matching) {
            throw Dialect.codec().misuse("receive-in-guard",
                    "A guard of a receive of " + process.pid() + " receives itself: let the guard only look at its message.", Map.of("pid", process.pid()));
        }
        mailbox.matching = true;
        try {
            for (Node n = from == null ? mailbox.drain() : from; n != null; n = n.next == null ? mailbox.drain() : n.next) {
                Object made = matcher.match(n.message);
                if (made != null) {
                    mailbox.remove(n);
                    tell(n.message);
                    return made;
                }
            }
            return null;
        } finally {
            mailbox.matching = false;
        }
    }

    private boolean await(Fiber fiber, long deadline) throws InterruptedException {
        Calls.waitsElsewhere(process);
        Parked waiter = new Parked(fiber, WaitReason.MAILBOX, process.pid());
        if (!mailbox.enlist(waiter)) {
            return refuseIfClosed();
        }
        boolean completed = false;
        try {
            completed = Waits.awaitUntil(fiber.environment(), waiter, deadline);
        } finally {
            if (!completed) {
                mailbox.delist(waiter);
            }
        }
        return completed;
    }

    private boolean refuseIfClosed() {
        if (mailbox.isClosed()) {
            throw new Exit(process.reason()); // in a shield: no message will come any more
        }
        return true;
    }

    /**
     * The mailbox as a source to wait for together with channels, after {@link #receive} found no message.
     * Called by the owner.
     */
    public Source source() {
        refuseIfClosed();
        return mailbox;
    }

    /**
     * The number of messages before the first one that the test accepts, or -1. Approximate while the owner
     * takes messages.
     */
    public int find(Predicate<Object> wanted) {
        return mailbox.find(wanted);
    }

    /** A snapshot of the mailbox's state. */
    public MailboxInfo info() {
        return mailbox.info();
    }

    // --- tracing -----------------------------------------------------------------------------------------------------

    /**
     * Also sends each message that the process sends or receives to this tracer, or with null to no tracer.
     */
    public void trace(Pid to) {
        tracer = to;
    }

    private Pid liveTracer() {
        Pid to = tracer;
        if (to != null && ProcessTable.live(to) == null) {
            tracer = null;
            return null;
        }
        return to;
    }

    /** Reports a message that the process has taken. */
    void tell(Object message) {
        Simulated.note("receives", process.pid(), message);
        Pid to = liveTracer();
        if (to != null) {
            Send.signal(to, Dialect.codec().trace(process.pid(), message, null));
        }
    }

    /** Reports a message that the process sends. */
    void tellSending(Object message, Object to) {
        Pid observer = liveTracer();
        if (observer != null) {
            Send.signal(observer, Dialect.codec().trace(process.pid(), message, to));
        }
    }

    // --- suspension --------------------------------------------------------------------------------------------------

    /** Suspends the process: it takes no message until it was resumed as often as suspended. */
    public void suspend() {
        StackRoom.touch();
        synchronized (process) {
            suspensions++;
            if (suspended == null) {
                suspended = new Latch();
            }
        }
    }

    /** Undoes one suspension; false if the process is not suspended. */
    public boolean resume() {
        StackRoom.touch();
        Latch opened;
        synchronized (process) {
            if (suspensions == 0) {
                return false;
            }
            suspensions--;
            opened = suspensions == 0 ? suspended : null;
            suspended = suspensions == 0 ? null : suspended;
        }
        if (opened != null) {
            opened.release();
        }
        return true;
    }

    boolean isSuspended() {
        return suspended != null;
    }

    void awaitResumption() throws InterruptedException {
        for (Latch g = suspended; g != null; g = suspended) {
            Waits.await(g, WaitReason.SUSPENDED, process.pid(), Durations.INFINITE);
        }
    }
}
