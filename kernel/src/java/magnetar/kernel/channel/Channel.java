package magnetar.kernel.channel;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.Spin;
import magnetar.kernel.fiber.StackRoom;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.report.Failures;
import magnetar.kernel.sched.Fault;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Waits;

/**
 * A queue between fibers: a put waits for a taker or for room in the buffer, a take waits for a value.
 *
 * <pre>{@code
 * Channel<String> c = Channel.rendezvous();
 * Thread.startVirtualThread(() -> c.send("hello"));   // exceptions left out
 * String s = c.receive();                             // "hello"; null once closed and drained
 * }</pre>
 *
 * <p>Invariants, whenever the lock is free:
 * <ol>
 *   <li>While a claimable taker waits, the buffer is empty, and no putter waits that can be claimed together
 *       with it.
 *   <li>While a claimable putter waits, the buffer is full, or the channel has no buffer.
 *   <li>Without a transform or a promise buffer, an accepted value is in the buffer, was dropped by it, or
 *       was delivered to exactly one take. A put that was not accepted leaves no value behind. For transforms
 *       see {@link TransformChannel}.
 *   <li>A waiter gives up for an interrupt, for a time limit, or because another branch of its select won.
 *       When the call of a fiber or thread returns, it has no node in a queue. The node of a callback that
 *       gave up stays until it is met or purged.
 *   <li>A closed channel never opens. Puts that wait at its closing stay until they are taken; takers are
 *       released.
 *   <li>No stack overflow ends an operation between its lock and its last wake-up, because each entry
 *       reserves the stack first ({@link StackRoom}, also by {@link Fiber#enter}).
 *   <li>Only an open channel has a {@link #finisher}, and refers to no thread by it: a fiber that is not held
 *       can be collected although its channel is reachable. No operation reads it.
 * </ol>
 *
 * <p>Source: Go's {@code runtime/chan.go}: a short lock, a ring, two queues of waiters, direct hand-off.
 * There are two differences. Waiters are claimed by compare-and-set (see {@link Waiter}), so that interrupts,
 * timers and selects compete for them without the lock. A closed channel keeps its waiting puts (core.async's
 * contract). Rejected: the segment queue of Kotlin and jox. It is faster under contention of many cores,
 * slower here, and cannot remove a waiter from its middle in O(1).
 *
 * <p>Most channels are used once: a go block's result, an answer. So a channel has no object for its lock, no
 * queue before two waiters are on one side ({@link NodeQueue}), and a buffer of one value has no ring. A go
 * block delivers its result and closes under one lock ({@link #finish}). Rejected: a second form of the
 * channel, a state machine of CAS on one field, that becomes this one at the second use. It saves the lock
 * of one operation, and each operation would have to know both forms.
 *
 * <p>The lock is an int: compare-and-set, then spin, then yield. On a channel with a buffer, a thread that
 * fails to lock backs off for a moment instead of spinning ({@link Spin#backOff}). While other threads fill
 * or empty the buffer at full speed, it backs off for some tens of microseconds, even while the lock is free.
 *
 * <p>Under the lock the kernel does not wait for an event. It may step aside for a moment while another
 * thread decides about a claim. Waking and callbacks happen after the unlock: a woken fiber would spin on the
 * lock, and a callback may wait for the channel's next operation. So an operation keeps the waiter that it
 * met, collects other finished ones in {@code deferred}, and completes them once the lock is free.
 *
 * <p>User code runs under the lock of two kinds of channels only: with a transducer, and with a buffer of the
 * program's own. There the lock is a {@link ReentrantLock}, and a thread that waits for it parks. A select
 * treats such a channel like any other. It commits its claim before the user code runs, since the effects of
 * user code cannot be undone. A handler of a foreign library is locked and committed under the lock of any
 * channel.
 *
 * <p>Lock order: channel, then claims by ascending id. The kernel never holds two channel locks. User code
 * that runs under one may take the lock of another channel.
 *
 * @param <T> what it carries; null is not a value
 */
public class Channel<T> implements ReadPort, WritePort, Port {
    /** The result of an operation whose waiter another event has claimed. */
    static final Object GONE = new Object();

    /** Others work at full speed if the buffer's size has changed by so many values during one pause. */
    private static final int BUSY = 8;

    private static final VarHandle LOCK;

    static {
        try {
            LOCK = MethodHandles.lookup().findVarHandle(Channel.class, "locked", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    final Buffer buffer;
    private final ReentrantLock mutex;

    // 1 while locked, where there is no mutex. Set by any thread.
    private volatile int locked;

    // Written under the lock, read by any thread.
    private volatile boolean closed;
    private volatile Object cause;

    // Guarded by the lock. Each is null, a Node or a NodeQueue, see there.
    Object takers;
    Object putters;
    private Node deferred;
    private Node lastDeferred;

    /** For a {@link ChannelMaker}. Programs use {@link #of}. */
    protected Channel(Buffer buffer) {
        this(buffer, buffer != null && buffer.runsUserCode());
    }

    Channel(Buffer buffer, boolean runsUserCode) {
        this.buffer = buffer;
        this.mutex = runsUserCode ? new ReentrantLock() : null;
    }

    /** A channel without a buffer: each put meets a take. */
    public static <T> Channel<T> rendezvous() {
        return of(null);
    }

    /** A channel with this buffer, or without one for null. A buffer belongs to one channel. */
    public static <T> Channel<T> of(Buffer buffer) {
        return ChannelMaker.current().channel(buffer);
    }

    // ---------------------------------------------------------------- operations that wait

    // Each operation of a fiber throws Cancelled or Exit, which are Errors, if the fiber has to end. An
    // operation that is possible at once is done, even by a thread that was interrupted.

    /**
     * Puts a value. Waits until it is taken or there is room for it.
     *
     * @return true if it was accepted, false if the channel is closed
     * @throws IllegalArgumentException if the value is null
     * @throws InterruptedException if interrupted while it waited; the value was not put
     * @throws magnetar.kernel.fiber.Cancelled if the fiber was cancelled; the value was not put
     */
    public final boolean send(T value) throws InterruptedException {
        return (boolean) sendWithin(value, Durations.INFINITE);
    }

    /**
     * Takes a value. Waits until there is one.
     *
     * @return the value, or null if the channel is closed and drained
     * @throws InterruptedException if interrupted while it waited; no value was taken
     * @throws magnetar.kernel.fiber.Cancelled if the fiber was cancelled; no value was taken
     */
    @SuppressWarnings("unchecked")
    public final T receive() throws InterruptedException {
        return (T) receiveWithin(Durations.INFINITE);
    }

    /**
     * Like {@link #send}, but waits for at most {@code nanos}, then returns {@link Port#PENDING}; 0 or
     * less never waits.
     */
    public final Object sendWithin(Object value, long nanos) throws InterruptedException {
        requireValue(value);
        Fiber fiber = Fiber.current();
        fiber.enter();
        Object r = nanos > 0 && putWouldProbablyWait() ? PENDING : putNow(value, null, null);
        return r != PENDING || nanos <= 0 ? r : waitFor(fiber, WaitReason.CHANNEL_PUT, value, nanos);
    }

    /**
     * Like {@link #receive}, but waits for at most {@code nanos}, then returns {@link Port#PENDING}; 0 or
     * less never waits.
     */
    public final Object receiveWithin(long nanos) throws InterruptedException {
        Fiber fiber = Fiber.current();
        fiber.enter();
        Object r = nanos > 0 && takeWouldProbablyWait() ? PENDING : takeNow(null, null);
        return r != PENDING || nanos <= 0 ? r : waitFor(fiber, WaitReason.CHANNEL_TAKE, null, nanos);
    }

    // Checks without the lock: true if an operation would probably wait. The operation checks again under the
    // lock, once its waiter is made.

    private boolean putWouldProbablyWait() {
        return buffer == null && !closed && NodeQueue.isEmpty(takers);
    }

    private boolean takeWouldProbablyWait() {
        return mutex == null && !closed && NodeQueue.isEmpty(putters) && !hasValue();
    }

    private Object waitFor(Fiber fiber, WaitReason reason, Object item, long nanos) throws InterruptedException {
        Parked waiter = new Parked(fiber, reason, this);
        Node node = new Node(waiter, 0, item);
        Object r = item == null ? takeNow(null, node) : putNow(item, null, node);
        if (r != PENDING) {
            return r;
        }
        boolean completed = false;
        try {
            completed = nanos == Durations.INFINITE ? waiter.await() : Waits.await(fiber.environment(), waiter, nanos);
        } finally {
            if (!completed) {
                remove(node);
            }
            waiter.tellIfLong(item == null ? "take" : "put");
        }
        return completed ? waiter.result() : PENDING;
    }

    // ---------------------------------------------------------------- operations that do not wait

    /**
     * Puts a value if that is possible now: true if accepted, false if closed, {@link Port#PENDING} if it
     * would wait.
     */
    public final Object sendNow(Object value) {
        requireValue(value);
        Fiber.current().enter();
        return putNow(value, null, null);
    }

    /**
     * Takes a value if there is one now: the value, null if closed and drained, {@link Port#PENDING} if it
     * would wait.
     */
    public final Object receiveNow() {
        Fiber.current().enter();
        return takeNow(null, null);
    }

    /** True if the value was accepted now. */
    public final boolean trySend(T value) {
        return sendNow(value) == Boolean.TRUE;
    }

    /** The value if there was one now. Else null, also if the channel is closed and drained. */
    @SuppressWarnings("unchecked")
    public final T tryReceive() {
        Object v = receiveNow();
        return v == PENDING ? null : (T) v;
    }

    /** Puts a value now, or queues the callback: true, false if closed, {@link Port#PENDING} if queued. */
    public final Object sendAsync(Object value, Callback callback) {
        requireValue(value);
        Fiber.current().enter();
        Object r = putNow(value, null, null);
        return r != PENDING ? r : putNow(value, null, new Node(callback, 0, value));
    }

    /**
     * Takes a value now, or queues the callback: the value, null if closed, {@link Port#PENDING} if queued.
     */
    public final Object receiveAsync(Callback callback) {
        Fiber.current().enter();
        Object r = takeNow(null, null);
        return r != PENDING ? r : takeNow(null, new Node(callback, 0, null));
    }

    @Override
    public final Object put(Object value, Handler handler) {
        requireValue(value);
        StackRoom.touch();
        ForeignWaiter own = new ForeignWaiter(handler);
        Object r = putNow(value, own, handler.blockable() ? new Node(own, 0, value) : null);
        return r == GONE ? PENDING : r;
    }

    @Override
    public final Object take(Handler handler) {
        StackRoom.touch();
        ForeignWaiter own = new ForeignWaiter(handler);
        Object r = takeNow(own, handler.blockable() ? new Node(own, 0, null) : null);
        return r == GONE ? PENDING : r;
    }

    static void requireValue(Object value) {
        if (value == null) {
            throw new IllegalArgumentException("Can't put nil on channel");
        }
    }

    // ---------------------------------------------------------------- closing

    /**
     * Closes the channel. Later puts are refused, and waiting takers get null now. Later takes get what is
     * left, then null.
     */
    @Override
    public final void close() {
        close(null);
    }

    /** Closes the channel with a cause, which {@link #cause} returns. Only the first close has an effect. */
    public final void close(Object why) {
        StackRoom.touch();
        lock();
        try {
            closeLocked(why);
        } finally {
            unlock();
        }
    }

    /**
     * Puts the last value, unless it is null, and closes the channel, in one step. Never waits: the value is
     * dropped if the channel is closed or has no room. Also done by a fiber that was cancelled.
     *
     * <p>A put that throws, in a transform or a buffer of the program's own, is reported before the channel
     * closes. It is not thrown.
     */
    public final void finish(T value) {
        beforeOperation();
        StackRoom.touch();
        Throwable failure = null;
        lock();
        try {
            if (value != null && !closed) {
                putLast(value);
            }
            closeLocked(null);
        } catch (Throwable t) {
            failure = t;
        } finally {
            unlock();
        }
        if (failure != null) {
            closeAfter(failure);
        }
    }

    /**
     * Records that this fiber, the current one, will {@link #finish} this channel. For inspection: without it
     * the fiber is found in no other way than by its local variables. Only a channel with a buffer of one value
     * records it.
     */
    public final void willBeFinishedBy(Fiber fiber) {
        if (buffer instanceof Buffer.Fixed one && !closed) {
            one.finisher = fiber;
        }
    }

    /** The fiber that will finish this channel; null if it is closed, or if no fiber is known. For inspection. */
    public final Fiber finisher() {
        return buffer instanceof Buffer.Fixed one && !closed ? one.finisher : null;
    }

    // Without the lock, since reports run user code.
    private void closeAfter(Throwable failure) {
        try {
            Failures.report(Thread.currentThread(), failure);
        } finally {
            close();
        }
    }

    private void putLast(Object value) {
        Node met = buffer == null || buffer.isTransparent() && isDirect() ? claimFirst(takers, null) : null;
        if (met != null) {
            deferCompletion(met, value);
            notePut(value);
        } else if (buffer != null && !buffer.isFull()) {
            acceptAndServe(value);
            notePut(value);
        }
    }

    final void closeLocked(Object why) {
        if (!closed) {
            Simulated.note("close", this, why);
            cause = why;
            closed = true;
            afterClose();
            releaseTakers();
        }
    }

    private void releaseTakers() {
        for (Node n = NodeQueue.first(takers); n != null; n = NodeQueue.first(takers)) {
            leave(n);
            if (n.waiter.claim()) {
                deferCompletion(n, hasValue() ? removeFor(n) : null);
            }
        }
        if (buffer != null) {
            buffer.close();
        }
    }

    @Override
    public boolean isClosed() {
        return closed;
    }

    /** The argument of {@link #close(Object)}, or null. */
    public Object cause() {
        return cause;
    }

    // ---------------------------------------------------------------- put and take under the lock

    /**
     * A whole put, under the lock.
     *
     * @param own the caller's waiter if others can see it (a select, or a foreign handler), else null
     * @param node queued if the put has to wait; null if it must not wait
     * @return true, false if closed, PENDING, or GONE if own was claimed by another event
     */
    final Object putNow(Object value, Waiter own, Node node) {
        beforeOperation();
        Node met = null;
        lock();
        try {
            if (closed) {
                return own == null || own.claimMine() ? Boolean.FALSE : GONE;
            }
            if (buffer == null || buffer.isTransparent() && isDirect()) {
                met = claimFirst(takers, own);
                if (met != null) {
                    met.item = value;
                    return notePut(value);
                }
            }
            if (buffer != null && !buffer.isFull()) {
                if (own != null && !own.claimMine()) {
                    return GONE;
                }
                acceptAndServe(value);
                return notePut(value);
            }
            if (node != null) {
                putters = enqueue(putters, node);
            }
            return PENDING;
        } finally {
            unlock(met);
        }
    }

    /** A whole take, under the lock; see {@link #putNow}. */
    final Object takeNow(Waiter own, Node node) {
        beforeOperation();
        Node met = null;
        lock();
        try {
            if (hasValue() || closed && flush() && hasValue()) {
                return own == null || own.claimMine() ? takeBuffered() : GONE;
            }
            met = node != null && Fault.TAKE_SKIPS_CHECK_UNDER_LOCK.isSeeded() ? null : claimFirst(putters, own);
            if (met != null) {
                Object value = met.item;
                met.item = Boolean.TRUE;
                return noteTake(value);
            }
            if (closed) {
                return own == null || own.claimMine() ? null : GONE;
            }
            if (node != null) {
                if (Fault.TAKE_LOOKS_AND_WAITS_IN_TWO_STEPS.isSeeded()) {
                    unlock();
                    lock();
                }
                takers = enqueue(takers, node);
            }
            return PENDING;
        } finally {
            unlock(met);
        }
    }

    /** Notes a completed put for the simulator, and returns its result. */
    private Object notePut(Object value) {
        Simulated.note("put", this, value);
        return Boolean.TRUE;
    }

    /** Notes a take of this value for the simulator, and returns it. */
    private Object noteTake(Object value) {
        Simulated.note("take", this, value);
        return value;
    }

    private void acceptAndServe(Object value) {
        try {
            accept(value);
        } finally {
            serveTakers(); // also if a transform threw after it had added values
        }
    }

    private Object takeBuffered() {
        Object value = noteTake(buffer.remove());
        while (!NodeQueue.isEmpty(putters) && !buffer.isFull()) {
            Node putter = claimFirst(putters, null);
            if (putter == null) {
                break;
            }
            Object next = putter.item;
            deferCompletion(putter, Boolean.TRUE);
            acceptQueued(next);
        }
        return value;
    }

    /** Hands values from the buffer to waiting takers. */
    final void serveTakers() {
        while (!NodeQueue.isEmpty(takers) && hasValue()) {
            Node taker = claimFirst(takers, null);
            if (taker == null) {
                return;
            }
            deferCompletion(taker, removeFor(taker));
        }
    }

    /**
     * The next value for a claimed taker. If a buffer of the program's own throws, that is reported and the
     * taker gets null.
     */
    private Object removeFor(Node taker) {
        try {
            return buffer.remove();
        } catch (Throwable t) {
            Failures.report(Thread.currentThread(), t);
            return null;
        }
    }

    /**
     * Checks without the lock: true if a take would probably have to wait. For the first pass of a select,
     * which checks again.
     */
    final boolean looksEmpty() {
        beforeOperation();
        return takeWouldProbablyWait();
    }

    final boolean hasValue() {
        return buffer != null && buffer.size() > 0;
    }

    /**
     * Claims the first claimable of these waiters, together with own, and removes it; null if no waiter could
     * be claimed.
     */
    final Node claimFirst(Object waiters, Waiter own) {
        for (Node n = NodeQueue.first(waiters); n != null; ) {
            Node next = n.next;
            if (n.waiter != own) {
                switch (Waiter.pair(own, n.waiter)) {
                    case PAIRED -> {
                        leave(n);
                        return n;
                    }
                    case OWN_GONE -> {
                        return null;
                    }
                    case PEER_GONE -> leave(n);
                }
            }
            n = next;
        }
        return null;
    }

    private Object enqueue(Object waiters, Node node) {
        if (!NodeQueue.accepts(waiters, node)) {
            throw tooMany(waiters == putters);
        }
        Simulated.note(node.item == null ? "take waits" : "put waits", this, node.item);
        boolean forgets = waiters instanceof Node && Fault.SECOND_WAITER_REPLACES_FIRST.isSeeded();
        return NodeQueue.with(forgets ? null : waiters, node);
    }

    /** Removes a node from the waiters of its side, if it is still among them. */
    private void leave(Node node) {
        if (node == takers) {
            takers = null;
        } else if (node == putters) {
            putters = null;
        } else if (node.queue != null) {
            node.queue.remove(node);
        }
    }

    private static AssertionError tooMany(boolean puts) {
        String limit = "Assert failed: No more than " + NodeQueue.CALLBACK_LIMIT + " pending ";
        return new AssertionError(puts
                ? limit + "puts are allowed on a single channel. Consider using a windowed buffer.\n(< (.size puts) impl/MAX-QUEUE-SIZE)"
                : limit + "takes are allowed on a single channel.\n(< (.size takes) impl/MAX-QUEUE-SIZE)");
    }

    /** Removes the node of a wait that ended elsewhere, if it still waits here. */
    final void remove(Node node) {
        if (!Fault.WAITER_LEAVES_CHANNEL_WITHOUT_LOCK.isSeeded()) {
            lock();
        }
        try {
            leave(node);
        } finally {
            unlock();
        }
    }

    /** Records the result of a claimed node that left its queue. It is completed once the lock is free. */
    final void deferCompletion(Node node, Object result) {
        node.item = result;
        if (deferred == null) {
            deferred = node;
        } else {
            lastDeferred.next = node;
        }
        lastDeferred = node;
    }

    // ---------------------------------------------------------------- differences between kinds of channels

    /** Puts an accepted value into the buffer. */
    void accept(Object value) {
        buffer.insert(value);
    }

    /**
     * Adds the value of a waiting put to the buffer. The put is complete, and is woken after the lock is
     * free.
     */
    final void acceptQueued(Object value) {
        try {
            accept(value);
        } catch (Throwable t) {
            Failures.report(Thread.currentThread(), t);
        }
    }

    /** False if a value has to pass the buffer even when a taker waits. */
    boolean isDirect() {
        return true;
    }

    /** Called under the lock, right after the channel was closed. */
    void afterClose() {}

    /** Called under the lock when a closed channel has no value. True if it may have one now. */
    boolean flush() {
        return false;
    }

    /** Called before each operation, without the lock. */
    void beforeOperation() {}

    /** Called after each section under the lock, without the lock. */
    void afterUnlock() {}

    // ---------------------------------------------------------------- the lock

    private void lock() {
        Simulated.switchPoint();
        if (mutex != null) {
            mutex.lock();
        } else if (!LOCK.compareAndSet(this, 0, 1)) {
            lockSlowly();
        }
    }

    // Without a buffer the next transfer needs the other side, so this thread retries at once. With a buffer
    // the other side gets more done if it is left alone.
    private void lockSlowly() {
        int failures = 0;
        int before = 0;
        do {
            if (buffer == null) {
                failures = Spin.turn(failures);
            } else {
                before = buffer.size();
                failures = Spin.backOff(failures);
            }
        } while (locked != 0 || othersWork(before, failures) || !LOCK.compareAndSet(this, 0, 1));
    }

    /**
     * True while other threads fill or empty the buffer at full speed, and this one has not backed off for as
     * long as it may.
     */
    private boolean othersWork(int before, int failures) {
        return buffer != null && Spin.mayStay(failures) && Math.abs(buffer.size() - before) >= BUSY;
    }

    /** Evaluates the question under the lock. It must not call an operation of the channel. */
    final boolean underLock(BooleanSupplier question) {
        lock();
        try {
            return question.getAsBoolean();
        } finally {
            if (mutex == null) {
                LOCK.setRelease(this, 0);
            } else {
                mutex.unlock();
            }
        }
    }

    /** Releases the lock, then completes the waiters that were finished under it. */
    private void unlock() {
        unlock(null);
    }

    /**
     * The same for an operation that met this node, which is claimed and holds its result. Null if it met no
     * node.
     */
    private void unlock(Node met) {
        Node first;
        if (mutex == null) {
            first = met != null ? met : takeDone();
            Simulated.switchPoint();
            LOCK.setRelease(this, 0);
        } else {
            if (met != null) {
                deferCompletion(met, met.item); // user code may have finished others before
            }
            if (mutex.getHoldCount() > 1) {
                mutex.unlock(); // an operation by user code under the lock: the outer one completes
                return;
            }
            first = takeDone();
            mutex.unlock();
        }
        afterUnlock();
        if (first != null) {
            complete(first);
        }
    }

    private Node takeDone() {
        Node first = deferred;
        if (first != null) {
            deferred = null;
            lastDeferred = null;
        }
        return first;
    }

    /** Wakes the parked threads first. A callback is user code and may wait for them. */
    private static void complete(Node first) {
        Node callbacks = null;
        Node lastCallback = null;
        for (Node n = first; n != null; ) {
            Node next = n.next;
            n.next = null;
            if (!n.waiter.isCallback()) {
                n.waiter.complete(n, n.item);
            } else if (callbacks == null) {
                callbacks = lastCallback = n;
            } else {
                lastCallback = lastCallback.next = n;
            }
            n = next;
        }
        for (Node n = callbacks; n != null; n = n.next) {
            n.waiter.complete(n, n.item);
        }
    }

    // ---------------------------------------------------------------- views

    /** The buffer, or null. */
    public final Buffer buffer() {
        return buffer;
    }

    /** The state of the channel now, as data. */
    public final ChannelInfo info() {
        StackRoom.touch();
        beforeOperation();
        lock();
        try {
            return ChannelInfo.of(closed, cause, buffer, takers, putters);
        } finally {
            unlock();
        }
    }

    @Override
    public String toString() {
        return "#<Channel " + Integer.toHexString(System.identityHashCode(this)) + (closed ? " closed>" : ">");
    }
}
