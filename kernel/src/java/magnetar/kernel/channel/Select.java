package magnetar.kernel.channel;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Collection;
import java.util.List;
import magnetar.kernel.park.Failures;
import magnetar.kernel.park.Fiber;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Waits;

/**
 * Waits for the first of several operations, takes and puts, and does exactly one of them.
 *
 * <pre>{@code
 * Select.Chosen first = Select.of(Select.take(a), Select.put(b, "x")).await();
 * // first.index() is 0 or 1; first.value() what was taken, or whether the put was accepted
 * }</pre>
 *
 * <p>First pass: tries each operation, in random order unless asked for the given one; nobody can see the select yet, so its
 * claim needs no care. Second pass: queues one node after the other, trying again under each channel's lock, now with its claim
 * (see {@link Waiter#pair}). Then parks. Afterwards, however it ended, the other nodes are taken out: a select leaves no ghost.
 *
 * <p>A take and a put on one channel without a buffer meet each other, as in core.async and unlike Go.
 */
public final class Select {
    // A select that calls back: whoever claims it and whoever queues its nodes each see what the other has done.
    private static final VarHandle NODE = MethodHandles.arrayElementVarHandle(Node[].class);

    private final Operation[] operations;
    private boolean inOrder;

    private Select(Operation[] operations) {
        if (operations.length == 0) {
            throw new IllegalArgumentException("A select needs at least one operation.");
        }
        this.operations = operations;
    }

    /** One branch: a take if the item is null, else a put of the item. */
    public record Operation(Object port, Object item) {}

    /** The branch that happened, and what it yielded: the value taken (null: closed), or true or false for a put. */
    public record Chosen(int index, Object value) {}

    /** The branch that takes from this port. */
    public static Operation take(ReadPort port) {
        return new Operation(port, null);
    }

    /** The branch that puts this value on this port. */
    public static Operation put(WritePort port, Object value) {
        return new Operation(port, java.util.Objects.requireNonNull(value, "null cannot be put on a channel"));
    }

    /** A select over these branches; it is used once. */
    public static Select of(Operation... operations) {
        return new Select(operations.clone());
    }

    /** A select over these branches; it is used once. */
    public static Select of(Collection<Operation> operations) {
        return new Select(operations.toArray(new Operation[0]));
    }

    /** Prefers the earlier of two branches that are both ready. */
    public Select inOrder() {
        inOrder = true;
        return this;
    }

    /** The branch that can happen now, or null. */
    public Chosen now() {
        Fiber fiber = Fiber.current();
        fiber.enter();
        return tryAll(order(fiber));
    }

    /**
     * Waits for a branch.
     *
     * @throws InterruptedException if interrupted while it waited; then no branch happened
     */
    public Chosen await() throws InterruptedException {
        return awaitWithin(Durations.INFINITE);
    }

    /** Waits for a branch, for so many nanoseconds; null if none happened. */
    public Chosen awaitWithin(long nanos) throws InterruptedException {
        Fiber fiber = Fiber.current();
        fiber.enter();
        int[] order = order(fiber);
        Chosen now = tryAll(order);
        return now != null || nanos <= 0 ? now : waitForFirst(fiber, order, nanos);
    }

    /** Does a branch now, or calls back with the {@link Chosen} one later: the branch, or null if it will call back. */
    public Chosen whenChosen(Handler.Completion target, boolean onCaller) {
        Fiber fiber = Fiber.current();
        fiber.enter();
        int[] order = order(fiber);
        Chosen now = tryAll(order);
        if (now != null) {
            return now;
        }
        Losers losers = new Losers(this);
        Callback callback = new Callback(target, onCaller).forSelect(losers);
        try {
            return queueAll(callback, losers.nodes, order);
        } finally {
            if (!callback.isOpen()) {
                losers.remove();
            }
        }
    }

    private int[] order(Fiber fiber) {
        int[] order = new int[operations.length];
        for (int i = 1; i < order.length; i++) {
            int j = inOrder ? i : fiber.random(i + 1);
            order[i] = order[j];
            order[j] = i;
        }
        return order;
    }

    private Chosen tryAll(int[] order) {
        for (int k = 0; k < order.length; k++) {
            int i = order[k];
            Object r = tryOne(operations[i]);
            if (r != Port.PENDING) {
                return new Chosen(i, r);
            }
            if (meetsEarlier(order, k)) {
                return meeting(order, k);
            }
        }
        return null;
    }

    private static Object tryOne(Operation o) {
        if (o.port instanceof Channel<?> c) {
            return o.item == null ? c.takeNow(null, null) : c.putNow(o.item, null, null);
        }
        return o.item == null
                ? ((ReadPort) o.port).take(NodeHandler.NOW)
                : ((WritePort) o.port).put(o.item, NodeHandler.NOW);
    }

    /** True if an earlier branch is the other half of a transfer through a channel without a buffer. */
    private boolean meetsEarlier(int[] order, int k) {
        return earlierPartner(order, k) >= 0;
    }

    private int earlierPartner(int[] order, int k) {
        Operation o = operations[order[k]];
        if (o.port instanceof Channel<?> c && c.buffer == null) {
            for (int e = 0; e < k; e++) {
                Operation other = operations[order[e]];
                if (other.port == c && (other.item == null) != (o.item == null)) {
                    return order[e];
                }
            }
        }
        return -1;
    }

    private Chosen meeting(int[] order, int k) {
        int i = order[k];
        return new Chosen(i, operations[i].item == null ? operations[earlierPartner(order, k)].item : Boolean.TRUE);
    }

    private Chosen waitForFirst(Fiber fiber, int[] order, long nanos) throws InterruptedException {
        Parked waiter = new Parked(fiber, WaitReason.SELECT, List.of(operations));
        Node[] nodes = new Node[operations.length];
        Node winner = null;
        try {
            Chosen now = queueAll(waiter, nodes, order);
            if (now != null) {
                return now;
            }
            boolean completed = Waits.await(fiber.world(), waiter, nanos);
            winner = completed ? (Node) waiter.source() : null;
            return completed ? new Chosen(winner.index, waiter.result()) : null;
        } finally {
            removeAll(nodes, winner);
        }
    }

    /** Queues a node for each branch until one can happen, which is returned, or the waiter is claimed. */
    private Chosen queueAll(Waiter waiter, Node[] nodes, int[] order) {
        try {
            for (int i : order) {
                Node node = new Node(waiter, i, operations[i].item);
                NODE.setVolatile(nodes, i, node);
                Object r = queueOne(operations[i], waiter, node);
                if (r == Channel.GONE || !waiter.isOpen() && r == Port.PENDING) {
                    return null;
                }
                if (r != Port.PENDING) {
                    return new Chosen(i, r);
                }
            }
            return null;
        } catch (Throwable t) {
            if (waiter.isMine() || waiter.claim()) {
                throw t;
            }
            Failures.report(Thread.currentThread(), t); // another branch has happened already: that is the answer
            return null;
        }
    }

    private static Object queueOne(Operation o, Waiter waiter, Node node) {
        if (o.port instanceof Channel<?> c) {
            return o.item == null ? c.takeNow(waiter, node) : c.putNow(o.item, waiter, node);
        }
        return o.item == null
                ? ((ReadPort) o.port).take(new NodeHandler(node))
                : ((WritePort) o.port).put(o.item, new NodeHandler(node));
    }

    private void removeAll(Node[] nodes, Node winner) {
        for (int i = 0; i < nodes.length; i++) {
            Node n = (Node) NODE.getVolatile(nodes, i);
            if (n != null && n != winner && operations[n.index].port instanceof Channel<?> c) {
                c.remove(n);
            }
        }
    }

    /** The nodes of a select that calls back, to be taken out once it has happened. */
    static final class Losers {
        private final Select select;
        private final Node[] nodes;

        Losers(Select select) {
            this.select = select;
            this.nodes = new Node[select.operations.length];
        }

        void remove() {
            select.removeAll(nodes, null);
        }
    }
}
