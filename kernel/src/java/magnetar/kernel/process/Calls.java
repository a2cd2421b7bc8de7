package magnetar.kernel.process;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Exit;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.sched.Fault;
import magnetar.kernel.time.DeadlineTimer;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Expiry;
import magnetar.kernel.time.Waits;

/**
 * Calls: a request, and the wait for its answer, for the end of the callee, or for the end of the time. The
 * {@link Codec} defines the form of a request. The library above turns a failed call into an error.
 *
 * <p>A process that is not a {@link Server} waits for nothing else during a call. So it waits on the
 * {@link Call} itself, past its mailbox. Its monitor of the callee lasts from one call to the next
 * ({@link Standing}). A server waits in its mailbox, with a monitor for each call, and checks for a cycle of
 * calls before it waits.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Exactly one event ends a {@code Call}: the one that claims its waiter. That is the first message sent
 *       to its reference, the death of the callee, the time limit, an interrupt, or the exit of the caller.
 *       Later messages are dropped.
 *   <li>No caller waits for a dead callee, or past its own exit, not even in a shield. T1, the caller, opens
 *       the call, then checks whether the callee is dead and whether its own mailbox is closed. T2 writes the
 *       death, or closes the mailbox, then looks for an open call. At least one sees the other.
 *   <li>A process lists at most one standing monitor, on the process that it called last. It lists it before
 *       the first request is sent, and until one of these: either process dies, it calls another process, it
 *       becomes idle without a fiber, or it waits in its mailbox after a single call. So a server lists its
 *       repeated callers, some 200 bytes each.
 *   <li>A server writes the call that it waits in before it checks for a cycle. So the last server to write
 *       sees the whole cycle.
 * </ol>
 *
 * <p>Rejected: letting the callee's mailbox report the death to the requests in it. The thread that kills a
 * process may not read the message list, which the owner's thread may be changing. Rejected: a monitor for
 * each call of every caller. Callers and callee would contend twice per call for the callee's lock.
 */
public final class Calls {
    private Calls() {}

    /** A process that handles the requests of others. The processes that it serves read its state. */
    public interface Server {
        /** The message that it handles now, or null. */
        Object handling();

        /**
         * The call that it waits in, or null. Read before {@link #handling}, which the server writes first.
         */
        Edge waitsIn();

        /** Sets the call that it waits in from now on; null for no call. */
        void waitFor(Edge edge);
    }

    /**
     * A wait-for edge: the callee of a server's call, and the reference of its answer. Each call has its own,
     * equal to no other.
     */
    public static final class Edge {
        private final Pid callee;
        private final Ref ref;

        Edge(Pid callee, Ref ref) {
            this.callee = callee;
            this.ref = ref;
        }
    }

    /** Why a call has no answer. */
    public enum Why {
        /** Time ran out. The answer may still come, until the call is {@link Calls#giveUp given up}. */
        TIMEOUT,
        /** The callee has ended; the detail is its exit reason. */
        DOWN,
        /**
         * The callee waits for the caller, directly or through others. The detail is the list of pids on the
         * cycle, from the caller to the caller.
         */
        CYCLE
    }

    /**
     * The result of a call without an answer.
     *
     * @param ref the reference of the missing answer
     */
    public record Failed(Why why, Object detail, Ref ref) {}

    // --- calling -----------------------------------------------------------------------------------------------------

    /**
     * Sends the request and waits for the answer. Called by the current process.
     *
     * @param object how the death notice names the callee
     * @param nanos how long to wait; {@link Long#MAX_VALUE} for no limit
     * @return the answer, or {@link Failed}
     */
    public static Object call(LocalProcess me, Pid callee, Object object, Object message, long nanos) throws InterruptedException {
        Server server = me.server();
        if (server != null) {
            return callAsServer(me, server, callee, object, message, nanos);
        }
        InFlight.deliver(callee);
        LocalProcess p = ProcessTable.live(callee);
        return p == null || nanos <= 0 || !mayWaitAlone(me, p)
                ? await(me, send(me, callee, object, message), nanos)
                : callAlone(me, p, object, message, nanos);
    }

    /**
     * Sends the request and returns the reference of its answer, for {@link #await}. Called by the current
     * process.
     */
    public static Ref send(LocalProcess me, Pid callee, Object object, Object message) throws InterruptedException {
        Ref.Alias mode = Fault.SECOND_ANSWER_COMES.isSeeded() ? Ref.Alias.DEMONITOR : Ref.Alias.REPLY_DEMONITOR;
        return send(me, Monitors.monitor(me, callee, object, null, mode), callee, message);
    }

    /** The same for the process that has a name on another node. */
    public static Ref send(LocalProcess me, RemoteName callee, Object message) throws InterruptedException {
        return send(me, Monitors.monitor(me, callee, null, Ref.Alias.REPLY_DEMONITOR), callee, message);
    }

    private static Ref send(LocalProcess me, Ref ref, Object callee, Object message) throws InterruptedException {
        try {
            Send.send(callee, Dialect.codec().request(me.pid(), ref, message));
            return ref;
        } catch (Throwable t) {
            Monitors.demonitor(me, ref); // the request was refused, so no answer comes
            throw t;
        }
    }

    /**
     * Sends the answer to the reference of a request, or to the caller itself if the reference never was an
     * address.
     */
    public static void answer(Pid caller, Ref ref, Object message) throws InterruptedException {
        Send.send(ref.isPlain() ? caller : ref, message);
    }

    /** The answer to a request that was sent before, or {@link Failed}. Called by the current process. */
    public static Object await(LocalProcess me, Ref ref, long nanos) throws InterruptedException {
        long wait = nanos > 0 && Fault.CALL_WAITS_TOO_LONG.isSeeded() ? 2 * nanos : nanos;
        Object context = me.messageContext();
        Object answer = me.receive(new AnswerTo(ref), wait, ref.mark());
        me.keepContext(context); // of the last message, which an answer is not
        return outcome(ref, answer);
    }

    /**
     * Stops waiting for the answer. Returns it if it is there already, else {@link Failed}. Called by the
     * current process.
     */
    public static Object giveUp(LocalProcess me, Ref ref) throws InterruptedException {
        if (Fault.LATE_ANSWER_COMES.isSeeded()) {
            return new Failed(Why.TIMEOUT, null, ref);
        }
        Monitors.demonitor(me, ref);
        return await(me, ref, 0);
    }

    /**
     * The outcome of the request with this reference, from a message that {@link #answers} it: the answer, or
     * {@link Failed}. Null means that time ran out.
     */
    public static Object outcome(Ref ref, Object message) {
        if (message == null) {
            return new Failed(Why.TIMEOUT, null, ref);
        }
        if (message instanceof Map.Entry<?, ?> pair) {
            return pair.getValue();
        }
        Codec codec = Dialect.codec();
        return codec.isDown(ref, message) ? new Failed(Why.DOWN, codec.reasonOfDown(message), ref) : codec.replied(message);
    }

    /** True if the message answers the request with this reference, or says that its callee has ended. */
    public static boolean answers(Ref ref, Object message) {
        return message instanceof Map.Entry<?, ?> pair ? pair.getKey() == ref
                : Dialect.codec().isReply(ref, message) || Dialect.codec().isDown(ref, message);
    }

    private record AnswerTo(Ref ref) implements Matcher {
        @Override
        public Object match(Object message) {
            return answers(ref, message) || Fault.ANY_MESSAGE_IS_THE_ANSWER.isSeeded() ? message : null;
        }
    }

    /** The process whose answer this one waits for; null if it waits for none, or cannot tell which. For inspection. */
    static Pid callee(LocalProcess process) {
        Edge edge = edge(process);
        return edge == null ? null : edge.callee;
    }

    /**
     * True if the server that this process calls has taken the request and no longer handles it, so that another
     * process may answer. False for a callee that is no server, since only the servers tell. For inspection.
     */
    public static boolean isPassedOn(LocalProcess process) {
        Edge edge = edge(process);
        LocalProcess callee = edge == null ? null : ProcessTable.live(edge.callee);
        return callee != null && callee.server() != null && !isOwed(edge);
    }

    private static Edge edge(LocalProcess process) {
        Server server = process.server();
        Edge edge = server == null ? null : server.waitsIn();
        if (edge != null) {
            return edge;
        }
        Standing standing = process.standing;
        Call open = standing == null ? null : standing.call;
        return open != null && open.isAddress() ? new Edge(standing.watched, open) : null;
    }

    // --- calls of a server
    // -------------------------------------------------------------------------------------------

    private static Object callAsServer(LocalProcess me, Server server, Pid callee, Object object, Object message, long nanos) throws InterruptedException {
        Ref ref = send(me, callee, object, message);
        Edge edge = new Edge(callee, ref);
        server.waitFor(edge);
        try {
            List<Pid> cycle = cycle(me, edge);
            if (cycle == null) {
                return await(me, ref, nanos);
            }
            giveUp(me, ref);
            return new Failed(Why.CYCLE, cycle, ref);
        } finally {
            server.waitFor(null);
        }
    }

    /**
     * The pids on the way from this process back to it, if each waits for the next; null if one does not.
     *
     * <p>The walk takes time. A call seen early may be answered, and its server may then start another call
     * that only seems to close the cycle. So there are two walks. An edge belongs to one call and never
     * recurs. Edges that both walks saw existed together at the instant between the walks.
     */
    private static List<Pid> cycle(LocalProcess me, Edge first) {
        List<Edge> way = wayBack(me, first);
        if (way == null || !way.equals(wayBack(me, first)) || !isOwed(first)) {
            return null;
        }
        List<Pid> pids = new ArrayList<>();
        pids.add(me.pid());
        for (Edge e : way) {
            pids.add(e.callee);
        }
        return pids;
    }

    private static List<Edge> wayBack(LocalProcess me, Edge first) {
        List<Edge> way = new ArrayList<>();
        Set<Pid> seen = new HashSet<>();
        Edge edge = first;
        while (edge != null && seen.add(edge.callee)) {
            way.add(edge);
            if (edge.callee.equals(me.pid())) {
                return way;
            }
            edge = next(ProcessTable.live(edge.callee));
        }
        return null;
    }

    /** The call that the process waits in, if its callee still owes the answer. */
    private static Edge next(LocalProcess process) {
        Server server = process == null ? null : process.server();
        Edge edge = server == null ? null : server.waitsIn();
        return edge != null && Aliases.isOpen(process, edge.ref) && isOwed(edge) ? edge : null;
    }

    /**
     * True if the callee handles the call, or has it in its mailbox. A call that it passed on waits for other
     * processes.
     */
    private static boolean isOwed(Edge edge) {
        LocalProcess callee = ProcessTable.live(edge.callee);
        Predicate<Object> request = new IsRequest(edge.ref);
        return Fault.CALL_GIVEN_AWAY_IS_OWED.isSeeded() || callee != null && (request.test(handled(callee)) || callee.find(request) >= 0);
    }

    private static Object handled(LocalProcess process) {
        Server server = process.server();
        if (server == null) {
            return null;
        }
        server.waitsIn();
        return server.handling();
    }

    private record IsRequest(Ref ref) implements Predicate<Object> {
        @Override
        public boolean test(Object message) {
            return message != null && Dialect.codec().isRequest(ref, message);
        }
    }

    // --- calls of other processes
    // ------------------------------------------------------------------------------------

    /** Ends the call of a caller that has to exit. */
    private static final Object NOTHING = new Object();

    /** False if the caller may not take a message now, or if sending the request may block. */
    private static boolean mayWaitAlone(LocalProcess me, LocalProcess callee) {
        return !me.isSuspended() && !me.mailbox().matching && !(callee.mailbox() instanceof BoundedMailbox);
    }

    private static Object callAlone(LocalProcess me, LocalProcess callee, Object object, Object message, long nanos) throws InterruptedException {
        Fiber fiber = me.fiber();
        Standing before = me.standing;
        Standing in = before != null && before.watched == callee.pid() ? before : new Standing(Refs.next(fiber), Refs.creation(), me.pid(), callee.pid());
        Call call = new Call(Refs.next(fiber), me.pid(), Refs.youngest(me), object, in, new Parked(fiber, WaitReason.MAILBOX, me.pid()));
        long deadline = Waits.deadline(fiber.environment(), nanos);
        in.open(call, deadline, fiber.environment());
        watch(me, in, in == before, callee);
        Parked waiter = call.waiter;
        boolean answered;
        try {
            answered = awaitAnswer(me, callee.pid(), message, call, in, deadline);
        } finally {
            in.close();
            call.waiter = null;
        }
        return answered ? taken(me, waiter.result(), call, deadline) : new Failed(Why.TIMEOUT, null, call);
    }

    private static void watch(LocalProcess me, Standing in, boolean listed, LocalProcess callee) {
        Simulated.switchPoint();
        if (!listed) {
            if (stand(me, in)) {
                Monitors.begin(me, in, callee);
            }
        } else if (in.watched.process() == null && !Fault.CALL_IGNORES_DEATH.isSeeded()) {
            InFlight.deliver(in.watched, me.pid());
            watchedDied(me, in, Dialect.get().noproc);
        }
    }

    private static boolean awaitAnswer(LocalProcess me, Pid callee, Object message, Call call, Standing in, long deadline) throws InterruptedException {
        Environment environment = me.fiber().environment();
        Parked waiter = call.waiter;
        Expiry expiry = null;
        try {
            expiry = in.limits(call, deadline) ? null : Waits.limit(environment, waiter, deadline);
            Send.send(callee, Dialect.codec().request(me.pid(), call, message));
            if (me.mailbox().isClosed()) {
                call.end(NOTHING);
            }
            return waiter.await();
        } finally {
            Waits.lift(environment, expiry);
        }
    }

    private static Object taken(LocalProcess me, Object answer, Call call, long deadline) throws InterruptedException {
        if (answer == NOTHING || me.mailbox().isClosed()) {
            // The caller has to exit and takes no message: it is in a shield, or its cause is about to be
            // written.
            throw new Exit(me.reason());
        }
        me.awaitResumption();
        if (answer instanceof Failed down && down.ref == call) {
            me.tell(Dialect.codec().down(call.tag, call, call.object, down.detail), null);
            return down;
        }
        if (answers(call, answer)) {
            me.tell(answer, null);
            return outcome(call, answer);
        }
        // A message that is not an answer was sent to the reference.
        Delivery.wake(me, me.mailbox().pushSignal(new Node(answer)));
        Environment environment = me.fiber().environment();
        return await(me, call, Waits.isOver(environment, deadline) ? 0 : Waits.left(environment, deadline));
    }

    /**
     * Replaces the standing monitor of this process, or removes it for null. Returns false, and does nothing,
     * if the process is dead.
     */
    private static boolean stand(LocalProcess me, Standing next) {
        Standing before;
        synchronized (me) {
            if (me.isDead()) {
                return false;
            }
            before = me.standing;
            if (before != null) {
                Monitors.endLocked(me, before);
            }
            if (next != null) {
                Monitors.keep(me, next);
            }
            me.standing = next;
        }
        if (before != null) {
            Monitors.forget(before);
        }
        return true;
    }

    // --- events
    // ------------------------------------------------------------------------------------------------------

    static boolean isCall(Ref ref) {
        return ref instanceof Call;
    }

    static boolean isStanding(Ref ref) {
        return ref instanceof Standing;
    }

    /** Handles a message that was sent to the reference of a call. False if the call has ended. */
    static boolean deliver(LocalProcess process, Ref ref, Object message) {
        Call call = (Call) ref;
        boolean open = call.isAddress();
        if (open) {
            Simulated.note("reply", process.pid(), message);
        }
        return open && call.end(message);
    }

    /** Called when the process is about to wait in its mailbox. It may never call again. */
    static void waitsElsewhere(LocalProcess me) {
        Standing standing = me.standing; // the callee may die meanwhile
        if (standing != null && standing.isForOneCall()) {
            stand(me, null);
        }
    }

    /** Called when the process is about to give up its fiber while it is idle. */
    static void passivates(LocalProcess me) {
        if (me.standing != null) {
            stand(me, null);
        }
    }

    /** Called under the lock of a process that exits, when its mailbox is closed. */
    static void exits(LocalProcess me) {
        Call open = me.standing == null ? null : me.standing.call;
        if (open != null) {
            open.end(NOTHING);
        }
    }

    /** Called when the process that the standing monitor watches has died. */
    static void watchedDied(LocalProcess me, Monitor m, Object why) {
        Standing standing = (Standing) m;
        synchronized (me) {
            Monitors.endLocked(me, standing);
            me.standing = me.standing == standing ? null : me.standing;
        }
        standing.end();
        Simulated.switchPoint();
        Call open = standing.call;
        if (open != null) {
            open.end(new Failed(Why.DOWN, why, open));
        }
    }

    /** Called when the watcher of a standing monitor will make no more calls with it. */
    static void forgotten(Monitor m) {
        ((Standing) m).end();
    }

    // --- the two references ------------------------------------------------------------------------------------------

    /**
     * A call of a process that is not a server. A message to its reference goes to the waiting caller, past
     * its mailbox.
     */
    private static final class Call extends Monitor {
        // Set before other threads have the reference, cleared by the caller. A message that is sent later is
        // dropped.
        private Parked waiter;

        Call(long id, Pid maker, long mark, Object object, Standing in, Parked waiter) {
            super(id, in.creation(), maker, mark, in.watched, object, Dialect.get().down);
            this.waiter = waiter;
        }

        @Override
        public boolean isPlain() {
            return false;
        }

        @Override
        boolean isAddress() {
            Parked w = waiter;
            return w != null && w.isUnclaimed();
        }

        /** Ends the call with this message; false if it has ended. */
        boolean end(Object message) {
            Parked w = waiter;
            boolean open = w != null && w.claim();
            if (open) {
                w.complete(this, message);
            }
            return open;
        }
    }

    /**
     * A monitor that lasts from one call of a process to the next, while it calls the same process. So a call
     * changes no list on either side.
     */
    static final class Standing extends Monitor {
        private static final VarHandle CALL;

        static {
            try {
                CALL = MethodHandles.lookup().findVarHandle(Standing.class, "call", Call.class);
            } catch (ReflectiveOperationException e) {
                throw new ExceptionInInitializerError(e);
            }
        }

        // Written by the caller.
        private volatile Call call;
        private volatile DeadlineTimer deadlineTimer;

        // Only accessed by the caller: true once the first call has ended.
        private boolean again;

        Standing(long id, long creation, Pid maker, Pid watched) {
            super(id, creation, maker, 0, watched, watched, null);
        }

        @Override
        Monitor call() {
            return call;
        }

        /** Opens a call. Called by the caller, which has no other open call. */
        void open(Call next, long deadline, Environment environment) {
            if (deadlineTimer == null && again) {
                deadlineTimer = new CallTimer(environment);
            }
            if (deadlineTimer != null) {
                deadlineTimer.set(deadline);
            }
            Simulated.switchPoint();
            call = next;
        }

        /** True if there was only one call, and it has ended. Called by the caller. */
        boolean isForOneCall() {
            return deadlineTimer == null && call == null;
        }

        /**
         * True if the call needs no timer of its own, because it has ended, or the deadlineTimer limits it.
         * Called by the caller.
         */
        boolean limits(Call open, long deadline) {
            return !open.isAddress() || deadlineTimer != null && deadline != Durations.INFINITE && deadlineTimer.arm();
        }

        /** Called when the caller waits no longer. */
        void close() {
            if (deadlineTimer != null) {
                deadlineTimer.lift();
            }
            CALL.setRelease(this, (Call) null);
            again = true;
        }

        /** Called when no more calls will be made with it. */
        void end() {
            DeadlineTimer a = deadlineTimer;
            if (a != null) {
                a.end();
            }
        }

        private final class CallTimer extends DeadlineTimer {
            CallTimer(Environment environment) {
                super(environment);
            }

            @Override
            protected Parked waiter() {
                Call open = call;
                return open == null ? null : open.waiter;
            }
        }
    }
}
