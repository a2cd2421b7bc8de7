package magnetar;

import clojure.lang.IExceptionInfo;
import clojure.lang.IPersistentMap;

/** Thrown for an operation that is not possible in the present state, such as a call within a transaction. */
public class StateException extends IllegalStateException implements IExceptionInfo {
    private static final long serialVersionUID = 1;

    private final IPersistentMap data;

    /** The data are what {@code ex-data} returns; the cause may be null. */
    public StateException(String message, IPersistentMap data, Throwable cause) {
        super(message, cause);
        this.data = data;
    }

    @Override
    public IPersistentMap getData() {
        return data;
    }
}
