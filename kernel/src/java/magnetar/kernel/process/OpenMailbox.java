package magnetar.kernel.process;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.List;
import java.util.function.Predicate;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.Spin;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.sched.Fault;

/**
 * A mailbox without a bound. Adding never waits.
 *
 * <p>The inbox is one field: null (empty), the youngest node of a stack, the waiter of the owner, or CLOSED.
 * A sender changes it by one compare-and-set. The owner takes the whole stack by one, and reverses it once.
 *
 * <p>Source: Treiber's stack; the parked owner in the same field as in Erlang's and Akka's mailboxes.
 * Difference: channels, timers and interrupts compete for the claim of the waiter as well. Rejected: a linked
 * queue with a dummy node. It costs one more object for each process, and a second field for the waiter, so
 * one more fence for each message.
 */
final class OpenMailbox extends Mailbox {
    private static final VarHandle INBOX;

    static {
        try {
            INBOX = MethodHandles.lookup().findVarHandle(OpenMailbox.class, "inbox", Object.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
        new OpenMailbox().close(); // links its call site, because a mailbox is closed when memory has run out
    }

    // Set or read by any thread.
    private volatile Object inbox;

    /** Changes the field by CAS. */
    private boolean move(Object from, Object to) {
        Simulated.switchPoint();
        return INBOX.compareAndSet(this, from, to);
    }

    @Override
    Waiter push(Node node) {
        for (int losses = 0; ; losses = Spin.lost(losses)) {
            Object w = inbox;
            if (w == CLOSED) {
                return CLOSED;
            }
            if (w instanceof Waiter owner) {
                node.next = null;
                node.number = 1;
                if (move(w, node)) {
                    return owner.claim() || Fault.OWNER_IS_WOKEN_WITHOUT_CLAIM.isSeeded() ? owner : null;
                }
            } else if (pushOn((Node) w, node)) {
                return null;
            }
        }
    }

    private boolean pushOn(Node top, Node node) {
        long number = top == null ? 1 : top.number + 1;
        node.next = top;
        node.number = number;
        boolean pushed = move(top, node) || Fault.MESSAGE_THAT_LOST_ITS_RACE_IS_LOST.isSeeded();
        if (pushed && number >= LongQueues.LIMIT) {
            LongQueues.grown(this, number);
        }
        return pushed;
    }

    @Override
    Waiter pushSignal(Node node) {
        return push(node);
    }

    @Override
    Node takeInbox() {
        for (;;) {
            Object w = inbox;
            if (!(w instanceof Node top)) {
                return null;
            }
            if (move(w, null)) {
                return reverse(top);
            }
        }
    }

    private static Node reverse(Node top) {
        Node reversed = null;
        for (Node n = top; n != null; ) {
            Node below = n.next;
            n.next = reversed;
            reversed = n;
            n = below;
        }
        return reversed;
    }

    @Override
    int inboxSize() {
        for (;;) {
            if (!(inbox instanceof Node top)) {
                return 0;
            }
            long n = top.number;
            VarHandle.loadLoadFence();
            if (inbox == top) { // otherwise the owner may have taken the node and renumbered it
                return (int) n;
            }
        }
    }

    @Override
    int findInInbox(Predicate<Object> wanted) {
        if (!(inbox instanceof Node top)) {
            return -1;
        }
        long left = top.number;
        int found = -1;
        for (Node n = top; n != null && left > 0; n = n.next) {
            left--;
            found = wanted.test(n.message) ? (int) left : found;
        }
        return found;
    }

    @Override
    void peekInInbox(int most, List<Object> found) {
        if (inbox instanceof Node top) {
            int before = found.size();
            long left = top.number;
            for (Node n = top; n != null && left > 0; n = n.next) {
                left--;
                if (left < most) {
                    found.add(before, n.message);
                }
            }
        }
    }

    @Override
    public boolean enlist(Waiter owner) {
        boolean sawNothing = Fault.OWNER_LOOKS_AND_WAITS_IN_TWO_STEPS.isSeeded() && inbox == null;
        return move(null, owner) || sawNothing && move(inbox, owner);
    }

    @Override
    public void delist(Waiter owner) {
        move(owner, null);
    }

    /** True if its owner is passivated. */
    boolean holdsOneAtRest() {
        return inbox instanceof PassivatedWaiter;
    }

    @Override
    void close() {
        Simulated.switchPoint();
        if (INBOX.getAndSet(this, (Object) CLOSED) instanceof Waiter owner && owner != CLOSED && owner.claim()) {
            owner.complete(this, null);
        }
    }

    @Override
    boolean isClosed() {
        return inbox == CLOSED;
    }
}
