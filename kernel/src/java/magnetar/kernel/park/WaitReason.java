package magnetar.kernel.park;

/**
 * Why a fiber is parked. The list is closed: another kind of wait gets a new reason.
 */
public enum WaitReason {
    /** Waits for a value from one channel. */
    CHANNEL_TAKE("take from a channel"),
    /** Waits until one channel accepts its value. */
    CHANNEL_PUT("put on a channel"),
    /** Waits for the first of several channel operations. */
    SELECT("select over channels"),
    /** Waits until a fork has ended. */
    FORK_JOIN("end of a fork"),
    /** Waits until all forks of its scope have ended. */
    SCOPE_JOIN("end of the forks of a scope"),
    /** Waits until a callback is called. */
    CALLBACK("call of a callback"),
    /** Waits until work on a platform thread has ended. */
    OFFLOAD("end of offloaded work"),
    /** Waits for a message. */
    MAILBOX("message"),
    /** Waits for a message, or the first of several channel operations. */
    MAILBOX_OR_CHANNELS("message, or select over channels"),
    /** Waits until a mailbox has room for its message. */
    MAILBOX_ROOM("room in a mailbox"),
    /** Waits until a process has ended. */
    PROCESS_END("end of a process"),
    /** Waits until a suspended process is resumed. */
    SUSPENDED("resumption of the process"),
    /** Waits for time to pass. */
    SLEEP("time to pass"),
    /** Waits for a port of another library, through a handler. */
    FOREIGN_PORT("operation on a port of another library"),
    /** Waits for the next connection of a listener. */
    SOCKET_ACCEPT("a connection at ", "a socket"),
    /** Waits until it is connected. */
    SOCKET_CONNECT("a connection to ", "a socket"),
    /** Waits for bytes, or a datagram. */
    SOCKET_READ("data from ", "a socket"),
    /** Waits until the other side takes more bytes. */
    SOCKET_WRITE("room to send to ", "a socket"),
    /** Waits for the addresses of a host. */
    HOST_LOOKUP("the address of ", "a host"),
    /** Waits until another node is connected, or cannot be. */
    NODE_CONNECTION("a connection with ", "another node"),
    /** Waits until the stream to another node takes more. */
    NODE_ROOM("room in the stream to ", "another node"),
    /** Waits for what is to be sent to another node. */
    NODE_SIGNALS("signals to send to ", "another node"),
    /** Waits until another node has processed what was sent to it. */
    NODE_READER("progress of the reader on ", "another node");

    private final String words;
    private final String ofWhat;

    WaitReason(String words) {
        this(words, "");
    }

    WaitReason(String words, String ofWhat) {
        this.words = words;
        this.ofWhat = ofWhat;
    }

    /** True if a fiber that waits for this usually waits on the same object again. */
    boolean isRepeated() {
        return this == CHANNEL_TAKE || this == CHANNEL_PUT || this == MAILBOX;
    }

    /** The reason in words, as a dump prints it. */
    public String words() {
        return words + ofWhat;
    }

    /** The same, with the name of the socket or host, or null if it has none. */
    public String words(String name) {
        return name == null || ofWhat.isEmpty() ? words() : words + name;
    }
}
