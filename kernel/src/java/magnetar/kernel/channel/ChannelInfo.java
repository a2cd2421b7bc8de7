package magnetar.kernel.channel;

import java.util.ArrayList;
import java.util.List;

/**
 * The state of a channel at one instant.
 *
 * @param closed whether it was closed
 * @param cause the cause that it was closed with, or null
 * @param count the number of values in its buffer
 * @param capacity the capacity of its buffer; 0 without a buffer, -1 if unbounded
 * @param takers the threads that wait to take; null stands for a callback
 * @param putters the threads that wait to put; null stands for a callback
 */
public record ChannelInfo(
        boolean closed, Object cause, int count, int capacity, List<Thread> takers, List<Thread> putters) {

    static ChannelInfo of(boolean closed, Object cause, Buffer buffer, Object takers, Object putters) {
        int count = buffer == null ? 0 : buffer.size();
        int capacity = buffer == null ? 0 : buffer.capacity();
        return new ChannelInfo(closed, cause, count, capacity, threads(takers), threads(putters));
    }

    private static List<Thread> threads(Object waiters) {
        List<Thread> threads = new ArrayList<>(NodeQueue.size(waiters));
        for (Node n = NodeQueue.first(waiters); n != null; n = n.next) {
            if (n.waiter.isUnclaimed()) {
                threads.add(n.waiter.thread());
            }
        }
        return threads;
    }
}
