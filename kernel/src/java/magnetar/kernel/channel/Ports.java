package magnetar.kernel.channel;

import magnetar.kernel.park.Fiber;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.time.Waits;

/** The operations of {@link Channel} for ports of any kind. */
public final class Ports {
    private Ports() {}

    /** Takes a value from a port; waits while there is none. Null if closed, {@link Port#PENDING} if time ran out. */
    public static Object take(ReadPort port, long nanos) throws InterruptedException {
        if (port instanceof Channel<?> c) {
            return c.receiveWithin(nanos);
        }
        return await(port, null, nanos);
    }

    /** Puts a value on a port; waits while there is no room. False if closed, {@link Port#PENDING} if time ran out. */
    public static Object put(WritePort port, Object value, long nanos) throws InterruptedException {
        if (port instanceof Channel<?> c) {
            return c.sendWithin(value, nanos);
        }
        return await(port, java.util.Objects.requireNonNull(value), nanos);
    }

    private static Object await(Object port, Object item, long nanos) throws InterruptedException {
        Fiber fiber = Fiber.current();
        fiber.enter();
        Parked waiter = new Parked(fiber, WaitReason.FOREIGN_PORT, port);
        Object r = start(port, item, nanos <= 0 ? NodeHandler.NOW : new NodeHandler(new Node(waiter, 0, item)));
        if (r != Port.PENDING || nanos <= 0) {
            return r;
        }
        return Waits.await(fiber.world(), waiter, nanos) ? waiter.result() : Port.PENDING;
    }

    private static Object start(Object port, Object item, Handler handler) {
        return item == null ? ((ReadPort) port).take(handler) : ((WritePort) port).put(item, handler);
    }

    /** Takes a value now, or queues the callback: the value, null if closed, {@link Port#PENDING} if queued. */
    public static Object take(ReadPort port, Callback callback) {
        return port instanceof Channel<?> c ? c.take(callback) : port.take(new NodeHandler(new Node(callback, 0, null)));
    }

    /** Puts a value now, or queues the callback: true, false if closed, {@link Port#PENDING} if queued. */
    public static Object put(WritePort port, Object value, Callback callback) {
        return port instanceof Channel<?> c
                ? c.put(value, callback)
                : port.put(value, new NodeHandler(new Node(callback, 0, value)));
    }
}
