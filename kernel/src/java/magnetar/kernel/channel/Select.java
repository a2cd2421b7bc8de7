package magnetar.kernel.channel;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Arrays;
import java.util.List;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.Source;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.report.Failures;
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
 * <p>The first pass tries each operation, in random order or in the given one. No other thread can see the
 * select yet, so its claim needs no care. The second pass queues the nodes one after the other. It tries each
 * operation again under the channel's lock, now with the select's claim (see {@link Waiter#pair}). Then the
 * thread parks. However the wait ended, the other nodes are removed afterwards.
 *
 * <p>In both passes a select checks its ports one after another and not at one instant, as core.async does
 * and Go does not. A change of a port that it has passed, or not reached, is seen by the wait that follows,
 * or comes too late.
 *
 * <p>A take and a put on one channel without a buffer meet each other, as in core.async and unlike Go.
 */
public final class Select {
    // Volatile for a select that calls back: the thread that claims it and the thread that queues its nodes
    // see each other's work.
    private static final VarHandle NODE = MethodHandles.arrayElementVarHandle(Node[].class);

    private static final Chosen BESIDE = new Chosen(-1, null);

    // Each element is an Operation, or for a take the port itself.
    private final Object[] branches;
    private final boolean hasPut;
    private boolean inOrder;
    private Source beside;

    private Select(Object[] branches) {
        if (branches.length == 0) {
            throw new IllegalArgumentException("A select needs at least one operation.");
        }
        this.branches = branches;
        this.hasPut = hasPut(branches);
    }

    private static boolean hasPut(Object[] branches) {
        for (Object b : branches) {
            if (itemOf(b) != null) {
                return true;
            }
        }
        return false;
    }

    private static Object portOf(Object branch) {
        return branch instanceof Operation o ? o.port : branch;
    }

    private static Object itemOf(Object branch) {
        return branch instanceof Operation o ? o.item : null;
    }

    private static boolean looksEmpty(Object branch) {
        return portOf(branch) instanceof Channel<?> c && itemOf(branch) == null && c.looksEmpty();
    }

    /** One branch: a take if the item is null, else a put of the item. */
    public record Operation(Object port, Object item) {}

    /**
     * The branch that happened, and its result: the value taken (null if closed), or true or false for a put.
     */
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
        return new Select(Arrays.copyOf(operations, operations.length, Object[].class));
    }

    /**
     * A select over these clauses, as core.async writes them: a port to take from, or a list of a port and
     * the value to put on it.
     */
    public static Select over(List<?> clauses) {
        Object[] branches = new Object[clauses.size()];
        for (int i = 0; i < branches.length; i++) {
            Object clause = clauses.get(i);
            branches[i] = clause instanceof List<?> pair
                    ? new Operation(Ports.writePort(pair.get(0)), pair.get(1))
                    : Ports.readPort(clause);
        }
        return new Select(branches);
    }

    /** Its branches, for dumps. */
    public List<Operation> operations() {
        return Arrays.stream(branches).map(b -> new Operation(portOf(b), itemOf(b))).toList();
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
        return tryAll(fiber, new int[branches.length], true);
    }

    /**
     * Waits for a branch.
     *
     * @throws InterruptedException if interrupted while it waited; then no branch happened
     */
    public Chosen await() throws InterruptedException {
        return awaitWithin(Durations.INFINITE);
    }

    /** Waits for a branch for at most so many nanoseconds; null if no branch happened. */
    public Chosen awaitWithin(long nanos) throws InterruptedException {
        Fiber fiber = Fiber.current();
        fiber.enter();
        int[] order = new int[branches.length];
        Chosen now = tryAll(fiber, order, nanos <= 0);
        return now != null || nanos <= 0 ? now : waitForFirst(fiber, order, nanos);
    }

    /**
     * Waits for a branch or for the source. If the source is ready first, the index is -1 and no branch
     * happened.
     */
    public Chosen awaitBeside(Source source, long nanos) throws InterruptedException {
        beside = source;
        return awaitWithin(nanos);
    }

    /** Does a branch now and returns it, or returns null and later calls back with the {@link Chosen} one. */
    public Chosen whenChosen(Handler.Completion target, boolean onCaller) {
        Fiber fiber = Fiber.current();
        fiber.enter();
        int[] order = new int[branches.length];
        Chosen now = tryAll(fiber, order, false);
        if (now != null) {
            return now;
        }
        Losers losers = new Losers(this);
        Callback callback = new Callback(target, onCaller).forSelect(losers);
        try {
            return queueAll(callback, losers.nodes, order);
        } finally {
            if (!callback.isUnclaimed()) {
                losers.remove();
            }
        }
    }

    /**
     * Draws the k-th branch from those not drawn yet. The order holds each drawn index plus 1; 0 at a place
     * stands for the place itself.
     */
    private int draw(Fiber fiber, int[] order, int k) {
        int j = inOrder ? k : k + fiber.random(order.length - k);
        int drawn = order[j] == 0 ? j : order[j] - 1;
        order[j] = order[k] == 0 ? k + 1 : order[k];
        order[k] = drawn + 1;
        return drawn;
    }

    /**
     * The first branch that can happen. Unless the answer is final, it skips channels that look empty without
     * locking them.
     */
    private Chosen tryAll(Fiber fiber, int[] order, boolean isFinal) {
        for (int k = 0; k < order.length; k++) {
            int i = draw(fiber, order, k);
            Object b = branches[i];
            Object r = !isFinal && looksEmpty(b) ? Port.PENDING : tryOne(b);
            if (r != Port.PENDING) {
                return new Chosen(i, r);
            }
            if (hasPut && meetsEarlier(order, k)) {
                return meeting(order, k);
            }
        }
        return null;
    }

    private static Object tryOne(Object branch) {
        Object item = itemOf(branch);
        if (portOf(branch) instanceof Channel<?> c) {
            return item == null ? c.takeNow(null, null) : c.putNow(item, null, null);
        }
        return item == null
                ? ((ReadPort) portOf(branch)).take(NodeHandler.NOW)
                : ((WritePort) portOf(branch)).put(item, NodeHandler.NOW);
    }

    /** True if an earlier branch is the other half of a transfer through a channel without a buffer. */
    private boolean meetsEarlier(int[] order, int k) {
        return earlierPartner(order, k) >= 0;
    }

    private int earlierPartner(int[] order, int k) {
        Object b = branches[order[k] - 1];
        if (portOf(b) instanceof Channel<?> c && c.buffer == null) {
            for (int e = 0; e < k; e++) {
                Object other = branches[order[e] - 1];
                if (portOf(other) == c && (itemOf(other) == null) != (itemOf(b) == null)) {
                    return order[e] - 1;
                }
            }
        }
        return -1;
    }

    private Chosen meeting(int[] order, int k) {
        int i = order[k] - 1;
        boolean isTake = itemOf(branches[i]) == null;
        return new Chosen(i, isTake ? itemOf(branches[earlierPartner(order, k)]) : Boolean.TRUE);
    }

    private Chosen waitForFirst(Fiber fiber, int[] order, long nanos) throws InterruptedException {
        Parked waiter = new Parked(fiber, beside == null ? WaitReason.SELECT : WaitReason.MAILBOX_OR_CHANNELS, this);
        Node[] nodes = new Node[branches.length];
        Node winner = null;
        try {
            Chosen now = queueAll(waiter, nodes, order);
            if (now != null || isBesideReady(waiter)) {
                return now == null ? BESIDE : now;
            }
            boolean completed = Waits.await(fiber.environment(), waiter, nanos);
            winner = completed && waiter.source() instanceof Node n ? n : null;
            return winner != null ? new Chosen(winner.index, waiter.result()) : completed ? BESIDE : null;
        } finally {
            removeAll(nodes, winner);
            if (beside != null) {
                beside.delist(waiter);
            } else {
                waiter.tellIfLong("alts");
            }
        }
    }

    /** Lets the source beside the channels compete. True if it is ready and no branch has happened. */
    private boolean isBesideReady(Waiter waiter) {
        return beside != null && !beside.enlist(waiter) && waiter.claimMine();
    }

    /** Queues a node for each branch, until one can happen, which is returned, or the waiter is claimed. */
    private Chosen queueAll(Waiter waiter, Node[] nodes, int[] order) {
        try {
            for (int drawn : order) {
                int i = drawn - 1;
                Node node = new Node(waiter, i, itemOf(branches[i]));
                NODE.setVolatile(nodes, i, node);
                Object r = queueOne(portOf(branches[i]), waiter, node);
                if (r == Channel.GONE || !waiter.isUnclaimed() && r == Port.PENDING) {
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
            Failures.report(Thread.currentThread(), t); // another branch happened: its result counts
            return null;
        }
    }

    private static Object queueOne(Object port, Waiter waiter, Node node) {
        Object item = node.item;
        if (port instanceof Channel<?> c) {
            return item == null ? c.takeNow(waiter, node) : c.putNow(item, waiter, node);
        }
        return item == null
                ? ((ReadPort) port).take(new NodeHandler(node))
                : ((WritePort) port).put(item, new NodeHandler(node));
    }

    private void removeAll(Node[] nodes, Node winner) {
        for (int i = 0; i < nodes.length; i++) {
            Node n = (Node) NODE.getVolatile(nodes, i);
            if (n != null && n != winner && portOf(branches[n.index]) instanceof Channel<?> c) {
                c.remove(n);
            }
        }
    }

    /** The nodes of a select that calls back, which are removed once a branch has happened. */
    static final class Losers {
        private final Select select;
        private final Node[] nodes;

        Losers(Select select) {
            this.select = select;
            this.nodes = new Node[select.branches.length];
        }

        void remove() {
            select.removeAll(nodes, null);
        }
    }
}
