package magnetar.kernel.channel;

/**
 * The waiting takers or putters of a channel, first come first served. Accessed only under the channel's
 * lock.
 *
 * <p>Most channels are used once, and never have two waiters on one side. So a channel keeps null while it
 * has no waiter on a side, the node itself for the first one, and a queue from the second on, which then
 * stays. The static methods take any of the three. Without the lock, {@link #isEmpty(Object)} is a hint.
 */
final class NodeQueue {
    /** The number of callbacks that may wait on one side of a channel, as in core.async. */
    static final int CALLBACK_LIMIT = 1024;

    Node first;
    private Node last; // with one node: null or that node, which saves a write
    private int size;
    private int callbacks;
    private int purgeAt = 16;

    /** The first of these waiters, or null. */
    static Node first(Object waiters) {
        return waiters instanceof NodeQueue q ? q.first : (Node) waiters;
    }

    /** True if none waits. */
    static boolean isEmpty(Object waiters) {
        return first(waiters) == null;
    }

    /** How many wait. */
    static int size(Object waiters) {
        return waiters instanceof NodeQueue q ? q.size() : waiters == null ? 0 : 1;
    }

    /** True if there is room for the node among these waiters; see {@link #accepts(Node)}. */
    static boolean accepts(Object waiters, Node node) {
        return !(waiters instanceof NodeQueue q) || q.accepts(node);
    }

    /** These waiters and the node, which waits last. */
    static Object with(Object waiters, Node node) {
        if (waiters == null) {
            return node;
        }
        NodeQueue queue = waiters instanceof NodeQueue q ? q : new NodeQueue();
        if (waiters instanceof Node n) {
            queue.add(n);
        }
        queue.add(node);
        return queue;
    }

    boolean isEmpty() {
        return first == null;
    }

    int size() {
        return size;
    }

    /**
     * True if there is room for the node. Now and then drops handlers of other libraries that are no longer
     * active.
     */
    boolean accepts(Node node) {
        if (!node.waiter.isCallback()) {
            return true;
        }
        if (callbacks >= purgeAt) {
            purge();
            purgeAt = Math.min(CALLBACK_LIMIT, Math.max(16, callbacks * 2));
        }
        return callbacks < CALLBACK_LIMIT;
    }

    private void purge() {
        for (Node n = first; n != null; ) {
            Node next = n.next;
            if (!n.waiter.isUnclaimed()) {
                remove(n);
            }
            n = next;
        }
    }

    void add(Node node) {
        node.queue = this;
        if (first == null) {
            first = node;
        } else {
            Node l = last == null ? first : last;
            node.previous = l;
            l.next = node;
            last = node;
        }
        count(node, 1);
    }

    void remove(Node node) {
        if (node.previous == null) {
            first = node.next;
        } else {
            node.previous.next = node.next;
        }
        if (node.next == null) {
            last = node.previous;
        } else {
            node.next.previous = node.previous;
        }
        node.queue = null;
        node.previous = null;
        node.next = null;
        count(node, -1);
    }

    private void count(Node node, int change) {
        size += change;
        if (node.waiter.isCallback()) {
            callbacks += change;
        }
    }
}
