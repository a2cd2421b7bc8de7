package magnetar.kernel.channel;

import java.util.function.Consumer;

/**
 * Code of the program, such as a transducer, that a value passes between its put and the buffer. The calls
 * are made under the lock of its channel, one at a time.
 */
public interface Transform {
    /** Adds any number of results for this value to the sink. True if no more values are wanted. */
    boolean add(Consumer<Object> sink, Object value);

    /** No value will follow: adds results that were kept back to the sink. May be called more than once. */
    void complete(Consumer<Object> sink);
}
