package magnetar.cluster.wire;

/** A stream that this library has not written. */
public final class BadStream extends RuntimeException {
    private static final long serialVersionUID = 1L;

    BadStream(String sentence) {
        super(sentence);
    }

    BadStream(String sentence, Throwable cause) {
        super(sentence, cause);
    }
}
