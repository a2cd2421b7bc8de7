package magnetar.kernel.process;

/** One message in a mailbox. */
class Node {
    final Object message;

    // Written by the sender before the node is published, then only by the owner of the mailbox.
    Node next; // in the inbox the one that came before, in the list of the owner the one that came after
    Node previous;
    long number; // in the inbox the number of nodes from this one down, in the list of the owner the number of its arrival

    Node(Object message) {
        this.message = message;
    }
}
