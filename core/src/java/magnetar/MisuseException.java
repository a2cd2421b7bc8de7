package magnetar;

import clojure.lang.IExceptionInfo;
import clojure.lang.IPersistentMap;

/** Thrown for an argument that is not accepted. The message names the operation, the value and the remedy. */
public class MisuseException extends IllegalArgumentException implements IExceptionInfo {
    private static final long serialVersionUID = 1;

    private final IPersistentMap data;

    /** The data are what {@code ex-data} returns; the cause may be null. */
    public MisuseException(String message, IPersistentMap data, Throwable cause) {
        super(message, cause);
        this.data = data;
    }

    @Override
    public IPersistentMap getData() {
        return data;
    }
}
