package magnetar.kernel.channel;

import java.util.function.Consumer;

/**
 * What happens to a value between its put and the buffer: code of the program, such as a transducer. Each call is made under
 * the lock of its channel, one at a time.
 */
public interface Transform {
    /** Gives none, one or many values for this one to the sink; true if it wants no more. */
    boolean add(Consumer<Object> sink, Object value);

    /** No value will follow: gives what it has kept back to the sink. May be called again after it. */
    void complete(Consumer<Object> sink);
}
