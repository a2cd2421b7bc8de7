package magnetar.kernel.channel;

import java.util.function.Consumer;
import magnetar.kernel.report.Failures;

/**
 * A channel that transforms the values that are put on it.
 *
 * <p>Differences from {@link Channel}: a value always passes the buffer. One put may add many values, even
 * more than the buffer's capacity; then later puts wait until there are fewer. When the transform wants no
 * more values, the channel closes. All waiting puts are released with true, and their values are dropped
 * (core.async's contract). An error of the transform is thrown by the put. If that put had been answered
 * before, the error is reported instead. Either way the lock is released.
 */
public class TransformChannel<T> extends Channel<T> {
    private final Transform transform;
    private final Consumer<Object> sink;

    /** For a {@link ChannelMaker}. Programs use {@link #of}. */
    protected TransformChannel(Buffer buffer, Transform transform) {
        super(buffer, true);
        this.transform = transform;
        this.sink = new Sink(buffer);
    }

    /** A channel with this buffer and this transform. */
    public static <T> Channel<T> of(Buffer buffer, Transform transform) {
        return ChannelMaker.current().transforming(buffer, transform);
    }

    /** The sink of the transform: adds its results to the buffer. */
    private record Sink(Buffer buffer) implements Consumer<Object> {
        @Override
        public void accept(Object value) {
            buffer.insert(value);
        }
    }

    @Override
    boolean isDirect() {
        return false;
    }

    @Override
    void accept(Object value) {
        if (transform.add(sink, value)) {
            serveTakers();
            abort();
        }
    }

    private void abort() {
        for (Node putter = claimFirst(putters, null); putter != null; putter = claimFirst(putters, null)) {
            deferCompletion(putter, Boolean.TRUE);
        }
        closeLocked(null);
    }

    @Override
    void afterClose() {
        flush();
    }

    @Override
    boolean flush() {
        if (!NodeQueue.isEmpty(putters)) {
            return false;
        }
        try {
            transform.complete(sink);
        } catch (Throwable t) {
            Failures.report(Thread.currentThread(), t);
        }
        return true;
    }
}
