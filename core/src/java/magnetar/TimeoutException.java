package magnetar;

import clojure.lang.ExceptionInfo;
import clojure.lang.IPersistentMap;

/** No answer in time. The data name the operation, what it waited for, and how long it did. */
public class TimeoutException extends ExceptionInfo {
    private static final long serialVersionUID = 1;

    /** The data are what {@code ex-data} returns. */
    public TimeoutException(String message, IPersistentMap data) {
        super(message, data);
    }

    @Override
    public String toString() {
        return getClass().getName() + ": " + getMessage();
    }
}
