package magnetar;

import clojure.lang.IExceptionInfo;
import clojure.lang.IPersistentMap;

/** Thrown for a nil that is not accepted. It extends the class that core.async throws in this case. */
public class NullException extends NullPointerException implements IExceptionInfo {
    private static final long serialVersionUID = 1;

    private final IPersistentMap data;

    /** The data are what {@code ex-data} returns; the cause may be null. */
    public NullException(String message, IPersistentMap data, Throwable cause) {
        super(message);
        this.data = data;
        if (cause != null) initCause(cause);
    }

    @Override
    public IPersistentMap getData() {
        return data;
    }
}
