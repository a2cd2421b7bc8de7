package magnetar.kernel.channel;

import java.util.function.BiFunction;
import java.util.function.Function;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Waits;

/** The operations of {@link Channel} for ports of any kind. */
public final class Ports {
    // Wraps a port of another library as one of ours, or returns null. Written when a bridge to that library
    // is loaded.
    private static volatile Function<Object, Object> adapter = x -> null;

    // Makes the error of an operation ("take", "put" or "close") on an object that is not a port. Written
    // when magnetar.async is loaded.
    private static volatile BiFunction<String, Object, RuntimeException> refusal =
            (operation, x) -> new IllegalArgumentException("cannot " + operation + ": this is no port: " + x);

    private Ports() {}

    /** Sets the function that wraps ports of other libraries. */
    public static void adapt(Function<Object, Object> adapter) {
        Ports.adapter = adapter;
    }

    /**
     * Sets the function that makes the error of an operation ("take", "put" or "close") on an object that is
     * not a port.
     */
    public static void refuseWith(BiFunction<String, Object, RuntimeException> refusal) {
        Ports.refusal = refusal;
    }

    /** Our port that wraps x, or null. */
    public static Object adapted(Object x) {
        return adapter.apply(x);
    }

    /** True if x is a port, or can be wrapped as one. */
    public static boolean isPort(Object x) {
        return x instanceof ReadPort || x instanceof WritePort || adapted(x) != null;
    }

    private static Object orAdapted(Class<?> kind, Object x) {
        return kind.isInstance(x) ? x : adapted(x);
    }

    /** x as a port to take from. */
    public static ReadPort readPort(Object x) {
        if (orAdapted(ReadPort.class, x) instanceof ReadPort p) {
            return p;
        }
        throw refused("take", x);
    }

    /** x as a port to put on. */
    public static WritePort writePort(Object x) {
        if (orAdapted(WritePort.class, x) instanceof WritePort p) {
            return p;
        }
        throw refused("put", x);
    }

    /** x as a port to close. */
    public static Port port(Object x) {
        if (orAdapted(Port.class, x) instanceof Port p) {
            return p;
        }
        throw refused("close", x);
    }

    private static RuntimeException refused(String operation, Object x) {
        return refusal.apply(operation, x);
    }

    /** Takes a value from a port of any kind. Waits until there is one. Null if closed. */
    public static Object take(Object x) throws InterruptedException {
        return x instanceof Channel<?> c ? c.receiveWithin(Durations.INFINITE) : await(readPort(x), null, Durations.INFINITE);
    }

    /** Puts a value on a port of any kind. Waits until there is room. False if closed. */
    public static Object put(Object x, Object value) throws InterruptedException {
        Channel.requireValue(value);
        return x instanceof Channel<?> c
                ? c.sendWithin(value, Durations.INFINITE)
                : await(writePort(x), value, Durations.INFINITE);
    }

    /**
     * Takes a value from a port. Waits until there is one. Null if closed, {@link Port#PENDING} if time ran
     * out.
     */
    public static Object take(ReadPort port, long nanos) throws InterruptedException {
        if (port instanceof Channel<?> c) {
            return c.receiveWithin(nanos);
        }
        return await(port, null, nanos);
    }

    /**
     * Puts a value on a port. Waits until there is room. False if closed, {@link Port#PENDING} if time ran
     * out.
     */
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
        try {
            return Waits.await(fiber.environment(), waiter, nanos) ? waiter.result() : Port.PENDING;
        } finally {
            waiter.tellIfLong(item == null ? "take" : "put");
        }
    }

    private static Object start(Object port, Object item, Handler handler) {
        return item == null ? ((ReadPort) port).take(handler) : ((WritePort) port).put(item, handler);
    }

    /**
     * Takes a value now, or queues the callback: the value, null if closed, {@link Port#PENDING} if queued.
     */
    public static Object take(ReadPort port, Callback callback) {
        return port instanceof Channel<?> c ? c.receiveAsync(callback) : port.take(new NodeHandler(new Node(callback, 0, null)));
    }

    /** Puts a value now, or queues the callback: true, false if closed, {@link Port#PENDING} if queued. */
    public static Object put(WritePort port, Object value, Callback callback) {
        return port instanceof Channel<?> c
                ? c.sendAsync(value, callback)
                : port.put(value, new NodeHandler(new Node(callback, 0, value)));
    }
}
