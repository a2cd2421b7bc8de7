package magnetar.kernel.process;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.report.Failures;
import magnetar.kernel.report.NoMemory;
import magnetar.kernel.sched.Fault;

/**
 * One stream of signals to another node and one back, from the moment when it can be used until it is down. It has the
 * links and monitors between processes of the two nodes. {@link Arrivals} handles the signals that come in.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A link or monitor over it is in a table here and in the list of its process of this node. It fires once: the
 *       thread that removes it from that list, under the lock of the process, tells the process. It leaves the table
 *       last. If memory runs out before, {@link #down} tells it again.
 *   <li>No link or monitor outlives it. T1 enters a link or monitor in the table, then reads {@code down}. T2, in {@link #down},
 *       writes {@code down}, then empties the tables. At least one of them sees the other.
 *       A link reads {@code down} before its process lists it: the list may hold the same link over a later connection.
 *   <li>A process that dies while it makes a link or monitor leaves none behind. T1, the process, enters it and sends
 *       the signal, then checks whether it is dead itself. If so, it ends the link or monitor once more, because T2,
 *       which ended the process, may have told its end before T1 sent the signal.
 *   <li>Links are symmetric when no signal is on its way. From {@link #unlink} until its answer the tie is in
 *       {@code unlinking}, and a link that comes from the other process meanwhile is dropped. The other node lists
 *       and sends a link in one step under its {@code order}, and in another such step ends a link and answers the
 *       unlink. So a link that comes before the answer has ended there as well, and one that comes after it has not.
 *   <li>A signal that arrives after {@link #down} does nothing.
 * </ol>
 *
 * <p>Lock order: {@code order}, then the lock of a process. A signal may be sent under the first.
 *
 * <p>A transport never calls {@link Peer#connect}, {@link #receive} and {@link #down} for one peer at the same time.
 *
 * <p>Source: Erlang's distribution protocol, whose unlink ids these are.
 */
public final class Connection {
    private final Peer peer;

    // Written once, when it begins. The peer may have another transport after it.
    private Transport transport;

    // Entries change as the invariants say.
    private final Set<Tie> links = ConcurrentHashMap.newKeySet();
    private final Map<Tie, Long> unlinking = new ConcurrentHashMap<>();
    private final Map<Ref, Monitor> watching = new ConcurrentHashMap<>(); // monitors that processes of this node have
    private final Map<Ref, Monitor> watched = new ConcurrentHashMap<>(); // monitors that processes of the other node have
    private final Map<Ref, Request> spawning = new ConcurrentHashMap<>(); // requests of this node

    private final Object order = new Object();

    // Written once.
    private volatile boolean down;

    /** A process of this node and one of the other. */
    record Tie(Pid own, Pid other) {}

    /** A request for a process, which was not answered, or not handled to the end. */
    private static final class Request {
        private final Signal.Spawn signal;
        private boolean over; // guarded by the lock of the process: the answer was delivered, or is not wanted

        Request(Signal.Spawn signal) {
            this.signal = signal;
        }
    }

    /** A connection to the node that has not begun. */
    public Connection(Peer peer) {
        this.peer = peer;
    }

    /** Called before other threads have it. */
    void begin(Transport by) {
        transport = by;
    }

    /** The other node. */
    public Peer peer() {
        return peer;
    }

    /** True from the call of {@link #down} on. */
    boolean isDown() {
        return down;
    }

    // --- the transport's side ----------------------------------------------------------------------------------------

    /** Handles a signal of the other node. Called in the order of the stream. Does not wait, and runs no code of the program. */
    public void receive(Signal signal) {
        if (!down || Fault.STREAM_IS_HEARD_AFTER_ITS_END.isSeeded()) {
            Arrivals.handle(this, signal);
        }
    }

    /** Ends it: all links and monitors over it fire, with the reason {@code noconnection}. Further calls do nothing. */
    public void down() {
        if (down) {
            return;
        }
        down = true;
        Simulated.switchPoint();
        for (int waits = 0;; waits++) {
            try {
                peer.disconnected(this);
                fireAll(Dialect.get().noconnection);
                NoMemory.awaited(waits > 0);
                return;
            } catch (OutOfMemoryError noRoom) {
                NoMemory.await(waits);
            }
        }
    }

    // Without lambdas, which the JVM links when they first run.
    private void fireAll(Object why) {
        for (Tie tie : links) {
            lose(tie);
        }
        for (Ref ref : watching.keySet()) {
            fire(ref, why);
        }
        for (Ref ref : watched.keySet()) {
            ignore(ref);
        }
        for (Ref ref : spawning.keySet()) {
            answer(ref, why);
        }
        unlinking.clear();
    }

    /** How many links, monitors and requests it holds. */
    public int entries() {
        return links.size() + unlinking.size() + watching.size() + watched.size() + spawning.size();
    }

    /** Sends a signal. Never waits. */
    void tell(Signal signal) {
        if (!down) {
            transport.send(this, signal);
        }
    }

    /** Waits while a sender should wait. */
    void awaitRoom() throws InterruptedException {
        transport.awaitRoom(this);
    }

    /** The work of a process that the other node asks for. */
    Callable<?> work(Object what) {
        return transport.work(this, what);
    }

    // --- links -------------------------------------------------------------------------------------------------------

    /** Links the current process with one of the other node. */
    void link(LocalProcess me, Pid other) {
        boolean listed;
        Simulated.switchPoint();
        synchronized (order) {
            listed = list(me, other, true);
            Simulated.switchPoint();
            if (listed) {
                tell(new Signal.Link(me.pid(), other));
            }
        }
        Simulated.switchPoint();
        if (!listed && down) {
            me.exit(other, Dialect.get().noconnection, false, null);
        }
        if (listed && me.isDead() && !Fault.REMOTE_LINK_IGNORES_DEATH.isSeeded()) {
            tell(new Signal.ExitLink(me.pid(), other, me.reason()));
        }
    }

    /**
     * Enters a link; false if the process is dead, or if this is down.
     *
     * @param byOwn true if the process of this node makes it. Then an unlink whose answer has not come no longer counts
     */
    boolean list(LocalProcess own, Pid other, boolean byOwn) {
        Tie tie = new Tie(own.pid(), other);
        Simulated.switchPoint();
        synchronized (own) {
            if (own.isDead()) {
                return false;
            }
            if (byOwn) {
                unlinking.remove(tie);
            }
            if (unlinking.containsKey(tie) && !Fault.CROSSING_LINK_SURVIVES_UNLINK.isSeeded()) {
                return true;
            }
            boolean added = links.add(tie);
            if (added && down && !Fault.LINK_OUTLIVES_CONNECTION.isSeeded()) {
                links.remove(tie);
                return false; // the list of the process may hold the same link over a later connection
            }
            Links.list(own, other);
            return true;
        }
    }

    private void lose(Tie tie) {
        LocalProcess own = tie.own.process();
        if (own != null) {
            own.exit(tie.other, Dialect.get().noconnection, true, null); // if it lists the link
        }
        links.remove(tie);
    }

    /** Ends a link of the current process. */
    void unlink(LocalProcess me, Pid other) {
        long id = Refs.next(me.fiber());
        Tie tie = new Tie(me.pid(), other);
        Simulated.switchPoint();
        synchronized (me) {
            if (!SmallSet.remove(me.links, other)) {
                return;
            }
            links.remove(tie);
            unlinking.put(tie, id);
        }
        if (down) {
            unlinking.remove(tie);
        }
        tell(new Signal.Unlink(me.pid(), other, id));
    }

    /** The other process has ended the link to this one, which is null if it is dead. */
    void unlinked(LocalProcess own, Signal.Unlink s) {
        Simulated.switchPoint();
        synchronized (order) {
            if (own != null) {
                synchronized (own) {
                    links.remove(new Tie(own.pid(), s.from()));
                    SmallSet.remove(own.links, s.from());
                }
            }
            tell(new Signal.UnlinkAck(s.to(), s.from(), s.id()));
        }
    }

    /** The answer to an unlink has come. */
    void unlinkAnswered(Pid own, Pid other, long id) {
        unlinking.remove(new Tie(own, other), id);
    }

    /** Tells the linked process that the one of this node has died. */
    void died(Pid own, Pid other, Object why) {
        Tie tie = new Tie(own, other);
        if (links.contains(tie)) {
            tell(new Signal.ExitLink(own, other, why));
            links.remove(tie); // last: if memory runs out before, this is done again
        }
    }

    /** The process of the other node has died. */
    void otherDied(Pid own, Pid other) {
        links.remove(new Tie(own, other));
    }

    // --- monitors ----------------------------------------------------------------------------------------------------

    /** Begins a monitor, which is in the list of the current process. If the connection is down, returns false: the caller fires it. */
    boolean watch(LocalProcess me, Monitor m) {
        watching.put(m, m);
        Simulated.switchPoint();
        if (down && !Fault.MONITOR_OUTLIVES_CONNECTION.isSeeded()) {
            return watching.remove(m) == null; // else it has fired
        }
        tell(new Signal.Monitor(me.pid(), m.target(), m));
        if (me.isDead()) {
            end(m); // also if another thread has done so, perhaps before the monitor was sent
        }
        return true;
    }

    /** Ends a monitor of this node. */
    void forget(Monitor m) {
        if (watching.containsKey(m)) {
            end(m);
        }
    }

    private void end(Monitor m) {
        tell(new Signal.Demonitor(m.maker(), m.target(), m));
        watching.remove(m); // last: if memory runs out before, this is done again
    }

    /** What a monitor of this node watched has died, or is out of reach. */
    void fire(Ref ref, Object why) {
        Monitor m = watching.get(ref);
        LocalProcess watcher = m == null ? null : m.maker().process();
        if (watcher != null) {
            Monitors.fire(watcher, m, why); // if it lists the monitor
        }
        if (Fault.REMOTE_MONITOR_FIRES_AGAIN.isSeeded() && watcher != null && !down) {
            Monitors.keep(watcher, m); // both lists still have it
            return;
        }
        watching.remove(ref);
    }

    /** Begins a monitor of the other node; false if the watched process is dead. */
    boolean beginWatched(LocalProcess p, Pid watcher, Object to, Ref ref) {
        Monitor m = ref instanceof ForeignRef foreign ? new Monitor.Foreign(foreign, watcher, p.pid(), to)
                : new Monitor(ref.id(), ref.creation(), watcher, 0, p.pid(), to, null);
        if (watched.putIfAbsent(m, m) != null) {
            return true;
        }
        boolean begun = Monitors.watch(p, m);
        if (!begun || down) {
            ignore(m);
        }
        return begun;
    }

    /** A monitor of the other node has ended. */
    void ignore(Ref ref) {
        Monitor m = watched.get(ref);
        if (m != null) {
            Monitors.forget(m);
            watched.remove(ref);
        }
    }

    /** Tells the watcher of the other node that the process of this one has died. */
    void watchedDied(Monitor m, Object why) {
        if (watched.containsKey(m)) {
            tell(new Signal.Down(m.object, m.maker(), m.written(), why));
            watched.remove(m); // last, as above
        }
    }

    /**
     * Ends the call of the other node that waits for an answer at this alias, because the answer cannot be written:
     * the server must not end because of a caller. False if no call waits there.
     */
    boolean failAnswer(Ref alias, RuntimeException why) {
        Monitor m = watched.get(alias);
        if (m != null) {
            watchedDied(m, Dialect.codec().reason(why));
            Monitors.forget(m);
            Failures.report("an answer to " + peer, Thread.currentThread(), why);
        }
        return m != null;
    }

    // --- starting processes ------------------------------------------------------------------------------------------

    /** Asks for a process. If it is down, that is the answer. */
    void spawn(Signal.Spawn request) {
        spawning.put(request.ref(), new Request(request));
        Simulated.switchPoint();
        if (down) {
            answer(request.ref(), Dialect.get().noconnection);
            return;
        }
        try {
            tell(request);
        } catch (Throwable t) {
            spawning.remove(request.ref());
            throw t;
        }
    }

    /** Gives up a request of the current process, whose answer will not come. False if it has come, or the request is unknown. */
    boolean abandon(LocalProcess me, Ref ref) {
        Request request = spawning.get(ref);
        if (request == null) {
            return false;
        }
        synchronized (me) {
            boolean waits = !request.over;
            request.over = true;
            return waits;
        }
    }

    /** Handles the answer to a request for a process: its pid, or the reason why it was not started. */
    void answer(Ref ref, Object result) {
        Request request = spawning.get(ref);
        if (request == null) {
            return;
        }
        LocalProcess me = request.signal.from().process();
        if ((me == null || !deliver(me, request, result)) && result instanceof Pid child) {
            release(me, request.signal, child);
        }
        spawning.remove(ref); // last, as above
    }

    /** False if the process has given the request up, or is dead. */
    private boolean deliver(LocalProcess me, Request request, Object result) {
        if (isOver(me, request)) {
            return false;
        }
        Ref told = result instanceof Pid child ? adopt(me, request.signal, child) : request.signal.ref();
        Node answer = Node.of(Dialect.codec().spawned(told, result), null);
        Waiter woken;
        synchronized (me) {
            if (isOver(me, request)) {
                return false;
            }
            woken = me.mailbox().pushSignal(answer);
            request.over = true;
        }
        Delivery.arrives("answer to a request", me, answer.message, woken);
        return true;
    }

    private static boolean isOver(LocalProcess me, Request request) {
        synchronized (me) {
            return request.over || me.isDead();
        }
    }

    /** Ends what both nodes have entered for a process that is dead, or does not want the new one. */
    private void release(LocalProcess me, Signal.Spawn request, Pid child) {
        if (me != null) {
            synchronized (me) {
                SmallSet.remove(me.links, child);
                Monitors.endLocked(me, request.ref());
            }
        }
        links.remove(new Tie(request.from(), child));
        watching.remove(request.ref());
        if (request.link()) {
            Object why = me == null || me.isDead() ? ended(request.from()) : Dialect.get().abandoned;
            tell(new Signal.ExitLink(request.from(), child, why));
        }
        if (request.monitor()) {
            tell(new Signal.Demonitor(request.from(), child, request.ref()));
        }
    }

    private static Object ended(Pid pid) {
        return pid.ended() == null ? Dialect.get().noproc : pid.ended().reason();
    }

    /** Enters the link and the monitor that were asked for. Returns the reference of the monitor, or of the request. */
    private Ref adopt(LocalProcess me, Signal.Spawn request, Pid child) {
        if (request.link() && !list(me, child, true)) {
            tell(new Signal.ExitLink(me.pid(), child, ended(me.pid())));
        }
        Ref ref = request.ref();
        if (!request.monitor()) {
            return ref;
        }
        Monitor m = new Monitor(ref.id(), ref.creation(), me.pid(), 0, child, child, Dialect.get().down);
        watching.put(m, m); // first: a process that dies after it has listed the monitor finds it here
        if (!Monitors.keep(me, m)) {
            end(m);
        }
        return m;
    }

    @Override
    public String toString() {
        return "connection to " + peer;
    }
}
