package magnetar;

import clojure.lang.ExceptionInfo;
import clojure.lang.IPersistentMap;

/**
 * Thrown when a wait runs out of time. The data hold the operation, its target, and the limit that was given: a
 * duration or an Instant. It is unchecked, unlike the class of that name in java.util.concurrent.
 */
public class TimeoutException extends ExceptionInfo {
    private static final long serialVersionUID = 1;

    /** The data are what {@code ex-data} returns. */
    public TimeoutException(String message, IPersistentMap data) {
        super(message, data);
    }

    // Without the data, which ExceptionInfo prints.
    @Override
    public String toString() {
        return getClass().getName() + ": " + getMessage();
    }
}
