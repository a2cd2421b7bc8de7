package magnetar.kernel.channel;

import java.util.Objects;
import magnetar.kernel.fiber.Environment;

/**
 * Makes all channels of this JVM. A library can replace the usual maker if its programs ask for the class of
 * a channel, as programs with core.async's names do.
 */
public interface ChannelMaker {
    /** A channel with this buffer, or without one for null. */
    <T> Channel<T> channel(Buffer buffer);

    /** A channel with this buffer and transform. */
    <T> Channel<T> transforming(Buffer buffer, Transform transform);

    /** A channel that closes at this instant of the environment's clock. */
    Channel<Object> timeout(Environment environment, long dueNanos);

    /** The maker in use. */
    static ChannelMaker current() {
        return UsualMaker.current;
    }

    /** Uses this maker for channels made from now on. */
    static void use(ChannelMaker maker) {
        UsualMaker.current = Objects.requireNonNull(maker);
    }
}
