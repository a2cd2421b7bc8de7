package magnetar.erlang.wire;

/** A packet that no node of Erlang sends. */
final class BadPacket extends RuntimeException {
    private static final long serialVersionUID = 1L;

    BadPacket(String sentence) {
        super(sentence);
    }

    BadPacket(String sentence, Throwable cause) {
        super(sentence, cause);
    }
}
