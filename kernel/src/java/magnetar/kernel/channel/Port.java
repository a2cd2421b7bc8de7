package magnetar.kernel.channel;

/** What has two ends and can be closed. */
public interface Port {
    /** The answer of an operation that did not happen now. Never a value. */
    Object PENDING = new Object() {
        @Override
        public String toString() {
            return "PENDING";
        }
    };

    /** Closes it; closing it again has no effect. */
    void close();

    /** True once closed, though values may be left to take. */
    boolean isClosed();
}
