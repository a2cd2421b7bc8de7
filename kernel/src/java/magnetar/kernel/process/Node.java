package magnetar.kernel.process;

/** One message in a mailbox. */
class Node {
    final Object message;

    // Written by the sender before the node is published, then only by the owner of the mailbox.
    Node next; // in the inbox the node pushed before this one, in the owner's list the one after it
    Node previous;
    long number; // in the inbox the count of nodes from this one down, in the list its arrival

    Node(Object message) {
        this.message = message;
    }
}
