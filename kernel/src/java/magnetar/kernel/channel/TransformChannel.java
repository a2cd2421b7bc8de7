package magnetar.kernel.channel;

import java.util.function.Consumer;
import magnetar.kernel.report.Failures;

/**
 * A channel that transforms what is put on it.
 *
 * <p>Differences from {@link Channel}: a value always passes the buffer, and one put may add many values, also more than the
 * buffer's capacity; then later puts wait until there are fewer. When the transform wants no more, the channel closes and all
 * waiting puts are released with true, their values dropped (core.async's contract). What the transform throws goes to whoever
 * put the value; if that put was answered before, to the failure hook. Either way the lock is released.
 */
public class TransformChannel<T> extends Channel<T> {
    private final Transform transform;
    private final Consumer<Object> sink;

    /** For a {@link ChannelMaker}; programs take {@link #of}. */
    protected TransformChannel(Buffer buffer, Transform transform) {
        super(buffer, true);
        this.transform = transform;
        this.sink = new Sink(buffer);
    }

    /** A channel with this buffer behind this transform. */
    public static <T> Channel<T> of(Buffer buffer, Transform transform) {
        return ChannelMaker.current().transforming(buffer, transform);
    }

    /** Where the transform puts its results. */
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
        for (Node putter = match(putters, null); putter != null; putter = match(putters, null)) {
            finish(putter, Boolean.TRUE);
        }
        closeLocked(null);
    }

    @Override
    void afterClose() {
        flush();
    }

    @Override
    boolean flush() {
        if (!putters.isEmpty()) {
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
