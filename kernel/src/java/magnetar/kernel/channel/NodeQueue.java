package magnetar.kernel.channel;

/**
 * The waiting takers or putters of a channel, first come first served. Accessed only under the channel's
 * lock.
 */
final class NodeQueue {
    /** The number of callbacks that may wait on one side of a channel, as in core.async. */
    static final int CALLBACK_LIMIT = 1024;

    /** The queue of a channel on which no waiter was queued yet; never added to. */
    static final NodeQueue NONE = new NodeQueue();

    Node first;
    private Node last; // with one node: null or that node, which saves a write
    private int size;
    private int callbacks;
    private int purgeAt = 16;

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
