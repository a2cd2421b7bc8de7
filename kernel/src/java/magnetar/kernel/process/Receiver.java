package magnetar.kernel.process;

import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import magnetar.kernel.fiber.CancellationScope;
import magnetar.kernel.fiber.Exit;
import magnetar.kernel.fiber.Propagation;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.StackRoom;
import magnetar.kernel.park.Latch;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.Source;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Waits;

/**
 * A process as the owner of its mailbox: takes messages out of it, unless the process is suspended, and
 * reports them to the tracer. It is a part of {@link LocalProcess}, not an object of its own, because there
 * may be a million idle processes.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Only the owner receives. It scans in one receive at a time: a matcher that receives is refused.
 *   <li>A message that a receive does not take keeps its place.
 *   <li>While {@code suspensions} is above zero, {@code suspended} is a closed latch, and no message is
 *       taken. A message that was taken before stays taken.
 *   <li>{@code rare} is null until one of its fields is set. Then it is the same object until the end.
 * </ol>
 */
public abstract sealed class Receiver extends CancellationScope permits LocalProcess {
    /** The result of {@link #next} for a message that is null. */
    public static final Object NULL = new Object();

    private static final Matcher ANY = message -> message == null ? NULL : message;

    private final Pid pid;
    private final Mailbox mailbox;

    // Written under the lock of the process, read by any thread.
    private volatile RareState rare;

    Receiver(Pid pid, Mailbox mailbox) {
        this.pid = pid;
        this.mailbox = mailbox;
    }

    /** The fields of a process that most processes never set. */
    static final class RareState {
        // Guarded by the lock of the process.
        Object name;
        Latch ended;
        SmallSet<Owned> owned;
        Exports exports;
        private int suspensions;

        // Written under the lock of the process, read by any thread.
        private volatile Latch suspended;

        // Set or read by any thread.
        private volatile Pid tracer;

        // Only accessed by the owner.
        private Object messageContext;
        private Object contexts;

        private RareState() {}
    }

    /** Its rare state, or null. */
    final RareState rare() {
        return rare;
    }

    /** Its rare state, made on first use. Called under the lock. */
    final RareState makeRare() {
        RareState r = rare;
        if (r == null) {
            r = new RareState();
            rare = r;
        }
        return r;
    }

    /** Its pid. */
    public final Pid pid() {
        return pid;
    }

    final Mailbox mailbox() {
        return mailbox;
    }

    /** This process. */
    abstract LocalProcess process();

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
        fiber().enter();
        Object taken = take(matcher, mailbox.after(mark));
        return taken != null || nanos <= 0 ? taken : awaitAndTake(matcher, Waits.deadline(fiber().environment(), nanos));
    }

    // A parked process keeps the frame of this method, and in it what the loop needs after the wait. So it
    // calls no further method of this class in order to wait, and little is needed.
    private Object awaitAndTake(Matcher matcher, long deadline) throws InterruptedException {
        for (;;) {
            Calls.waitsElsewhere(process());
            Parked waiter = new Parked(fiber(), WaitReason.MAILBOX, pid);
            if (!mailbox.enlist(waiter)) {
                refuseIfClosed();
            } else {
                boolean completed = false;
                try {
                    completed = deadline == Durations.INFINITE ? waiter.await() : Waits.awaitUntil(fiber().environment(), waiter, deadline);
                } finally {
                    if (!completed) {
                        mailbox.delist(waiter);
                    }
                }
                if (!completed) {
                    return null;
                }
            }
            Object taken = take(matcher, null);
            if (taken != null || Waits.isOver(fiber().environment(), deadline)) {
                return taken;
            }
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
                    "A guard of a receive of " + pid + " receives itself: let the guard only look at its message.", Map.of("pid", pid));
        }
        mailbox.matching = true;
        try {
            for (Node n = from == null ? mailbox.drain() : from; n != null; n = n.next == null ? mailbox.drain() : n.next) {
                Object made = matcher.match(n.message);
                if (made != null) {
                    keepContext(process().server() == null ? Propagation.askedFor(n.context()) : n.context());
                    mailbox.remove(n);
                    tell(n.message, n.context());
                    return made;
                }
            }
            return null;
        } finally {
            mailbox.matching = false;
        }
    }

    /** The context values of the sender of the message that was taken last, or null. Called by the owner. */
    public Object messageContext() {
        RareState r = rare;
        return r == null ? null : r.messageContext;
    }

    /** The same, once: afterwards it is null until a message is taken. Called by the owner. */
    public Object takeMessageContext() {
        Object context = messageContext();
        keepContext(null);
        return context;
    }

    /** Sets what {@link #messageContext} returns. Called by the owner. */
    void keepContext(Object context) {
        RareState r = rare;
        if (r == null && context != null) {
            r = lockedRare();
        }
        if (r != null) {
            r.messageContext = context;
        }
    }

    /** What the Clojure API keeps of contexts while the owner handles a message, or null. Called by the owner. */
    public Object contexts() {
        RareState r = rare;
        return r == null ? null : r.contexts;
    }

    /** Sets what {@link #contexts} returns. Called by the owner. */
    public void setContexts(Object next) {
        RareState r = rare;
        if (r == null && next != null) {
            r = lockedRare();
        }
        if (r != null) {
            r.contexts = next;
        }
    }

    private synchronized RareState lockedRare() {
        return makeRare();
    }

    private void refuseIfClosed() {
        if (mailbox.isClosed()) {
            throw new Exit(process().reason()); // in a shield: no message will come any more
        }
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

    /**
     * The oldest messages in the mailbox, at most so many. Approximate while the owner takes messages.
     */
    public List<Object> messages(int most) {
        return mailbox.peek(most);
    }

    /** A snapshot of the mailbox's state. */
    public MailboxInfo mailboxInfo() {
        return mailbox.info();
    }

    // --- tracing -----------------------------------------------------------------------------------------------------

    /**
     * Also sends each message that the process sends or receives to this tracer, or with null to no tracer.
     */
    public void trace(Pid to) {
        StackRoom.touch();
        synchronized (this) {
            makeRare().tracer = to;
        }
    }

    private Pid liveTracer() {
        RareState r = rare;
        Pid to = r == null ? null : r.tracer;
        if (to != null && ProcessTable.live(to) == null) {
            r.tracer = null;
            return null;
        }
        return to;
    }

    /** Reports a message that the process has taken, with the context values of its sender, or null. */
    void tell(Object message, Object context) {
        Simulated.note("receives", pid, message);
        Traffic.takes(message, context);
        Pid to = liveTracer();
        if (to != null) {
            Send.signal(to, Dialect.codec().trace(pid, message, null));
        }
    }

    /** Reports a message that the process sends. */
    void tellSending(Object message, Object to) {
        Pid observer = liveTracer();
        if (observer != null) {
            Send.signal(observer, Dialect.codec().trace(pid, message, to));
        }
    }

    // --- suspension --------------------------------------------------------------------------------------------------

    /** Suspends the process: it takes no message until it was resumed as often as suspended. */
    public void suspend() {
        StackRoom.touch();
        synchronized (this) {
            RareState r = makeRare();
            r.suspensions++;
            if (r.suspended == null) {
                r.suspended = new Latch();
            }
        }
    }

    /** Undoes one suspension; false if the process is not suspended. */
    public boolean resume() {
        StackRoom.touch();
        Latch opened;
        synchronized (this) {
            RareState r = rare;
            if (r == null || r.suspensions == 0) {
                return false;
            }
            r.suspensions--;
            opened = r.suspensions == 0 ? r.suspended : null;
            r.suspended = r.suspensions == 0 ? null : r.suspended;
        }
        if (opened != null) {
            opened.release();
        }
        return true;
    }

    boolean isSuspended() {
        return suspension() != null;
    }

    /** The latch that opens when the process is resumed; null while it is not suspended. */
    private Latch suspension() {
        RareState r = rare;
        return r == null ? null : r.suspended;
    }

    void awaitResumption() throws InterruptedException {
        for (Latch g = suspension(); g != null; g = suspension()) {
            Waits.await(g, WaitReason.SUSPENDED, pid, Durations.INFINITE);
        }
    }
}
