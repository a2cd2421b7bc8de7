package magnetar.kernel.channel;

/**
 * An object that can be closed, of which at least one end can be used: see {@link ReadPort} and
 * {@link WritePort}.
 */
public interface Port {
    /** The result of an operation that did not happen now. Never a value. */
    Object PENDING = new Object() {
        @Override
        public String toString() {
            return "PENDING";
        }
    };

    /** Closes the port. Closing it again has no effect. */
    void close();

    /** True once closed, even if values are left to take. */
    boolean isClosed();
}
