package magnetar.kernel.channel;

import java.util.Objects;
import magnetar.kernel.fiber.World;

/**
 * Makes all channels. There is one per JVM: the usual one, unless a library needs channels of classes of its own, for programs
 * that ask of which class a channel is (core.async's names on Magnetar).
 */
public interface ChannelMaker {
    /** A channel behind this buffer, or without one for null. */
    <T> Channel<T> channel(Buffer buffer);

    /** A channel behind this buffer and transform. */
    <T> Channel<T> transforming(Buffer buffer, Transform transform);

    /** A channel that closes at this instant of the world's clock. */
    Channel<Object> timeout(World world, long dueNanos);

    /** The one that is in use. */
    static ChannelMaker current() {
        return UsualMaker.current;
    }

    /** Uses this one for channels made from now on. */
    static void use(ChannelMaker maker) {
        UsualMaker.current = Objects.requireNonNull(maker);
    }
}
