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

    /** A message with the context values of its sender, or null for none: then it is no larger. */
    static Node of(Object message, Object context) {
        return context == null ? new Node(message) : new InContext(message, context);
    }

    /** The context values of its sender, or null. */
    Object context() {
        return null;
    }

    private static final class InContext extends Node {
        private final Object context;

        InContext(Object message, Object context) {
            super(message);
            this.context = context;
        }

        @Override
        Object context() {
            return context;
        }
    }
}
