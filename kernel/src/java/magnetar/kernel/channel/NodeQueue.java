package magnetar.kernel.channel;

/** The takers or the putters that wait on a channel, first come first served. All access under the channel's lock. */
final class NodeQueue {
    /** The number of callbacks that may wait on one side of a channel, as in core.async. */
    static final int CALLBACK_LIMIT = 1024;

    /** The queue of a channel on which nobody has waited yet; never added to. */
    static final NodeQueue NONE = new NodeQueue();

    Node first;
    private Node last; // null, or the first, while there is one only: it is not written then
    private int size;
    private int callbacks;
    private int purgeAt = 16;

    boolean isEmpty() {
        return first == null;
    }

    int size() {
        return size;
    }

    /** True if there is room for the node. Handlers of other libraries that lost interest are dropped now and then. */
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
            if (!n.waiter.isOpen()) {
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
