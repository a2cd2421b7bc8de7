package magnetar.kernel.process;

import java.util.Map;
import java.util.function.Predicate;
import magnetar.kernel.fiber.Exit;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.StackRoom;
import magnetar.kernel.park.Gate;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.Source;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Waits;

/**
 * The owner's side of a mailbox: takes messages out of it, unless the process is suspended, and tells the tracer which.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The owner alone receives. It looks at a message in one receive at a time: a matcher that receives itself is refused.
 *   <li>A message that a receive does not take keeps its place.
 *   <li>While {@code suspensions} is above zero {@code suspended} is a closed gate, and no message is taken. A message that was taken before stays taken.
 * </ol>
 */
public final class Receiver {
    /** What {@link #next} returns for a message that is null. */
    public static final Object NULL = new Object();

    private static final Matcher ANY = message -> message == null ? NULL : message;

    private final LocalProcess process;
    private final Mailbox mailbox;

    // Written under the monitor of the process, read by any thread.
    private volatile Gate suspended;

    // Set or read by any thread.
    private volatile Pid tracer;

    // Guarded by the monitor of the process.
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
     * Takes the first message, in the order of arrival, that the matcher takes; the others stay. Called by the owner.
     *
     * @param nanos how long to wait; {@link Durations#INFINITE} without end
     * @param mark no message is looked at that arrived before
     * @return what the matcher made of it; null if time ran out
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
            deadline = first ? Waits.deadline(fiber.world(), nanos) : deadline;
            if (!first && Waits.isOver(fiber.world(), deadline) || !await(fiber, deadline)) {
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

    /** Takes a message from this node on, or from those that arrive meanwhile; null if none fits. */
    private Object take(Matcher matcher, Node from) throws InterruptedException {
        awaitResumption();
        if (mailbox.matching) {
            throw Words.language().misuse("receive-in-guard",
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
            completed = Waits.awaitUntil(fiber.world(), waiter, deadline);
        } finally {
            if (!completed) {
                mailbox.delist(waiter);
            }
        }
        return completed;
    }

    private boolean refuseIfClosed() {
        if (mailbox.isClosed()) {
            throw new Exit(process.reason()); // in a shield: nothing will come any more
        }
        return true;
    }

    /** The mailbox as something to wait for together with channels; look through it with {@link #receive} first. Called by the owner. */
    public Source source() {
        refuseIfClosed();
        return mailbox;
    }

    /** How many messages are in the mailbox before the first one that the test takes, or -1; a guess while the owner takes messages. */
    public int find(Predicate<Object> wanted) {
        return mailbox.find(wanted);
    }

    /** What is known of the mailbox at one instant. */
    public MailboxInfo info() {
        return mailbox.info();
    }

    // --- tracing -----------------------------------------------------------------------------------------------------

    /** Sends what the process sends and receives to this one as well, or with null no longer. */
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

    /** The process has taken this message. */
    void tell(Object message) {
        Simulated.note("receives", process.pid(), message);
        Pid to = liveTracer();
        if (to != null) {
            Send.signal(to, Words.language().trace(process.pid(), message, null));
        }
    }

    /** The process sends this message. */
    void tellSending(Object message, Object to) {
        Pid observer = liveTracer();
        if (observer != null) {
            Send.signal(observer, Words.language().trace(process.pid(), message, to));
        }
    }

    // --- suspension --------------------------------------------------------------------------------------------------

    /** Lets the process take no message until it was resumed as often as suspended. */
    public void suspend() {
        StackRoom.touch();
        synchronized (process) {
            suspensions++;
            if (suspended == null) {
                suspended = new Gate();
            }
        }
    }

    /** Takes one suspension back; false if there is none. */
    public boolean resume() {
        StackRoom.touch();
        Gate opened;
        synchronized (process) {
            if (suspensions == 0) {
                return false;
            }
            suspensions--;
            opened = suspensions == 0 ? suspended : null;
            suspended = suspensions == 0 ? null : suspended;
        }
        if (opened != null) {
            opened.open();
        }
        return true;
    }

    boolean isSuspended() {
        return suspended != null;
    }

    void awaitResumption() throws InterruptedException {
        for (Gate g = suspended; g != null; g = suspended) {
            Waits.await(g, WaitReason.SUSPENDED, process.pid(), Durations.INFINITE);
        }
    }
}
