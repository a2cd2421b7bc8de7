package magnetar.kernel.channel;

import magnetar.kernel.park.Waiter;

/** The place of a waiter in the queue of one channel. A select has one in each of its channels. */
final class Node {
    final Waiter waiter;
    final int index;

    // The value to put, or null for a take; the result once finished. Guarded by the channel's lock, then by the claim.
    Object item;

    // Guarded by the lock of the channel that the node waits in. All are null if it waits in none, or as the only one
    // of a channel without a queue.
    Node previous;
    Node next;
    NodeQueue queue;

    Node(Waiter waiter, int index, Object item) {
        this.waiter = waiter;
        this.index = index;
        this.item = item;
    }
}
