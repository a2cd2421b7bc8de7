package magnetar.kernel.channel;

import magnetar.kernel.fiber.Environment;

/** Makes the kernel's own channels; also keeps the maker that is in use. */
final class UsualMaker implements ChannelMaker {
    // Written by the thread that loads a library with a maker of its own, read by any thread.
    static volatile ChannelMaker current = new UsualMaker();

    private UsualMaker() {}

    @Override
    public <T> Channel<T> channel(Buffer buffer) {
        return new Channel<>(buffer);
    }

    @Override
    public <T> Channel<T> transforming(Buffer buffer, Transform transform) {
        return new TransformChannel<>(buffer, transform);
    }

    @Override
    public Channel<Object> timeout(Environment environment, long dueNanos) {
        return new TimeoutChannel(environment, dueNanos);
    }
}
