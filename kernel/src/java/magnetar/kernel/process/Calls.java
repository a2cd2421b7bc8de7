package magnetar.kernel.process;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import magnetar.kernel.fiber.Exit;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.World;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.sched.Fault;
import magnetar.kernel.time.Alarm;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Expiry;
import magnetar.kernel.time.Waits;

/**
 * Calls: a request, and the wait for its answer, for the end of the callee, or for the end of the time. How a request looks the language says; what a failed call
 * says to its caller is the affair of the library above.
 *
 * <p>A process that is no {@link Server} waits for nothing else while it calls. So it waits on the {@link Call} itself, past its mailbox, in a monitor that stands
 * from one call to the next ({@link Standing}). A server waits in its mailbox, by a monitor for each call, and looks for a cycle of calls before it waits.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The event that claims the waiter of a {@code Call} ends it: the first message that is sent to its reference, the death of the callee, the time, an interrupt, or
 *       the end of the caller. So exactly one of them comes, and what is sent later is dropped.
 *   <li>The caller opens a call and then looks whether the callee is dead, or it has to exit itself. A death is written before the dying look for an open call,
 *       and a mailbox is closed before. So one of both sees the other: no caller waits for the dead, or past its own end, not even in a shield.
 *   <li>A process lists at most one standing monitor, of whom it called last, like any monitor. It lists it from before the first request to the death of one of
 *       both, to a call of another process, or until it rests; or, after one call only, until it waits in its mailbox. So a server lists those who call it again
 *       and again, some 200 bytes each.
 *   <li>A server writes which call it waits in before it looks for a cycle. So of the servers of a cycle the last one sees all of it.
 * </ol>
 *
 * <p>Refused: a call that is told of the death by the mailbox that its request is in (whoever kills a process may not look at the list of messages, which its
 * thread may be working on), and a monitor for each call of those that are no servers (callers and the callee would meet twice for each under its monitor).
 */
public final class Calls {
    private Calls() {}

    /** A process that takes the requests of others. What it does now is read by those whose calls it handles. */
    public interface Server {
        /** The message that it handles, or null. */
        Object handling();

        /** The call that it waits in, or null. Read before {@link #handling}: the call that it handles was written before. */
        Edge waitsIn();

        /** It waits in this call from now on, or in none. */
        void waitFor(Edge edge);
    }

    /** A call that a server waits in: whom it has called, and the reference of the answer. One per call, never equal to another. */
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
        /** The callee waits for the caller, perhaps by way of others; the detail is the list of their pids, from the caller to the caller. */
        CYCLE
    }

    /**
     * What a call returns in place of an answer.
     *
     * @param ref the reference that the answer would have had
     */
    public record Failed(Why why, Object detail, Ref ref) {}

    // --- calling -----------------------------------------------------------------------------------------------------

    /**
     * Sends the request and waits for the answer. Called by the current process.
     *
     * @param object how the message of the callee's end names it
     * @param nanos how long to wait; {@link Durations#INFINITE} without end
     * @return the answer, or {@link Failed}
     */
    public static Object call(LocalProcess me, Pid callee, Object object, Object message, long nanos) throws InterruptedException {
        Server server = me.server();
        if (server != null) {
            return callAsServer(me, server, callee, object, message, nanos);
        }
        Ways.settle(callee);
        LocalProcess p = ProcessTable.live(callee);
        return p == null || nanos <= 0 || !mayWaitAlone(me, p)
                ? await(me, send(me, callee, object, message), nanos)
                : callAlone(me, p, object, message, nanos);
    }

    /** Sends the request; the reference that its answer has, which {@link #await} waits for. Called by the current process. */
    public static Ref send(LocalProcess me, Pid callee, Object object, Object message) throws InterruptedException {
        Ref.Alias mode = Fault.SECOND_ANSWER_COMES.isPlanted() ? Ref.Alias.DEMONITOR : Ref.Alias.REPLY_DEMONITOR;
        Ref ref = Monitors.monitor(me, callee, object, null, mode);
        Send.send(callee, Words.language().request(me.pid(), ref, message));
        return ref;
    }

    /** Sends the answer to the reference of a request; to the caller itself if the reference never was an address. */
    public static void answer(Pid caller, Ref ref, Object message) throws InterruptedException {
        Send.send(ref.isPlain() ? caller : ref, message);
    }

    /** The answer to a request that was sent before, or {@link Failed}. Called by the current process. */
    public static Object await(LocalProcess me, Ref ref, long nanos) throws InterruptedException {
        long wait = nanos > 0 && Fault.CALL_WAITS_TOO_LONG.isPlanted() ? 2 * nanos : nanos;
        return outcome(ref, me.receiver().receive(new AnswerTo(ref), wait, ref.mark()));
    }

    /** Waits for the answer no longer: the one that is there already, or {@link Failed}. Called by the current process. */
    public static Object giveUp(LocalProcess me, Ref ref) throws InterruptedException {
        if (Fault.LATE_ANSWER_COMES.isPlanted()) {
            return new Failed(Why.TIMEOUT, null, ref);
        }
        Monitors.demonitor(me, ref);
        return await(me, ref, 0);
    }

    /** What the message says to the request with this reference, which it {@link #answers}: the answer, or {@link Failed}; of null that time ran out. */
    public static Object outcome(Ref ref, Object message) {
        if (message == null) {
            return new Failed(Why.TIMEOUT, null, ref);
        }
        if (message instanceof Map.Entry<?, ?> pair) {
            return pair.getValue();
        }
        Language language = Words.language();
        return language.isDown(ref, message) ? new Failed(Why.DOWN, language.reasonOfDown(message), ref) : language.replied(message);
    }

    /** True if the message answers the request with this reference, or says that its callee has ended. */
    public static boolean answers(Ref ref, Object message) {
        return message instanceof Map.Entry<?, ?> pair ? pair.getKey() == ref
                : Words.language().isReply(ref, message) || Words.language().isDown(ref, message);
    }

    private record AnswerTo(Ref ref) implements Matcher {
        @Override
        public Object match(Object message) {
            return answers(ref, message) || Fault.ANY_MESSAGE_IS_THE_ANSWER.isPlanted() ? message : null;
        }
    }

    // --- the call of a server ----------------------------------------------------------------------------------------

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
     * <p>While one walks, a call seen before may be answered, and its server then close what looks like the rest of a cycle. An edge is of one call and never
     * comes back. So calls that two walks have seen were all there at the instant between the two.
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

    /** The call that the process waits in, if its callee owes the answer still. */
    private static Edge next(LocalProcess process) {
        Server server = process == null ? null : process.server();
        Edge edge = server == null ? null : server.waitsIn();
        return edge != null && Aliases.isOpen(process, edge.ref) && isOwed(edge) ? edge : null;
    }

    /** True if the callee has the call in hand or in its mailbox. One that it gave away waits for others. */
    private static boolean isOwed(Edge edge) {
        LocalProcess callee = ProcessTable.live(edge.callee);
        Predicate<Object> request = new IsRequest(edge.ref);
        return Fault.CALL_GIVEN_AWAY_IS_OWED.isPlanted() || callee != null && (request.test(handled(callee)) || callee.receiver().find(request) >= 0);
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
            return message != null && Words.language().isRequest(ref, message);
        }
    }

    // --- the call of one that waits for nothing else -----------------------------------------------------------------

    /** What a call ends with when its caller has to exit. */
    private static final Object NOTHING = new Object();

    /** Not if its next message has to wait itself, nor if the send may. */
    private static boolean mayWaitAlone(LocalProcess me, LocalProcess callee) {
        return !me.receiver().isSuspended() && !me.mailbox().matching && !(callee.mailbox() instanceof BoundedMailbox);
    }

    private static Object callAlone(LocalProcess me, LocalProcess callee, Object object, Object message, long nanos) throws InterruptedException {
        Fiber fiber = me.fiber();
        Standing before = me.standing;
        Standing in = before != null && before.watched == callee.pid() ? before : new Standing(Refs.next(fiber), Refs.creation(), me.pid(), callee.pid());
        Call call = new Call(Refs.next(fiber), me.pid(), Refs.youngest(me), object, in, new Parked(fiber, WaitReason.MAILBOX, me.pid()));
        long deadline = Waits.deadline(fiber.world(), nanos);
        in.open(call, deadline, fiber.world());
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
        } else if (in.watched.process() == null && !Fault.CALL_IGNORES_DEATH.isPlanted()) {
            Ways.settle(in.watched, me.pid());
            watchedDied(me, in, Words.get().noproc);
        }
    }

    private static boolean awaitAnswer(LocalProcess me, Pid callee, Object message, Call call, Standing in, long deadline) throws InterruptedException {
        World world = me.fiber().world();
        Parked waiter = call.waiter;
        Expiry expiry = null;
        try {
            expiry = in.limits(call, deadline) ? null : Waits.limit(world, waiter, deadline);
            Send.send(callee, Words.language().request(me.pid(), call, message));
            if (me.mailbox().isClosed()) {
                call.end(NOTHING);
            }
            return waiter.await();
        } finally {
            Waits.lift(world, expiry);
        }
    }

    private static Object taken(LocalProcess me, Object answer, Call call, long deadline) throws InterruptedException {
        if (answer == NOTHING || me.mailbox().isClosed()) {
            throw new Exit(me.reason()); // it has to exit, and takes no message any more; in a shield, or its cause is about to be written
        }
        me.receiver().awaitResumption();
        if (answer instanceof Failed down && down.ref == call) {
            me.receiver().tell(Words.language().down(call.tag, call, call.object, down.detail));
            return down;
        }
        if (answers(call, answer)) {
            me.receiver().tell(answer);
            return outcome(call, answer);
        }
        Delivery.wake(me, me.mailbox().pushSignal(new Node(answer))); // somebody has sent something else to the reference
        World world = me.fiber().world();
        return await(me, call, Waits.isOver(world, deadline) ? 0 : Waits.left(world, deadline));
    }

    /** Lists the monitor that the calls of this process are open in from now on, or none, in place of the last one; false, and nothing was done, if it is dead. */
    private static boolean stand(LocalProcess me, Standing next) {
        Standing before;
        synchronized (me) {
            if (me.isDead()) {
                return false;
            }
            before = me.standing;
            if (before != null) {
                Monitors.endUnderMonitor(me, before);
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

    // --- what others tell of -----------------------------------------------------------------------------------------

    static boolean isCall(Ref ref) {
        return ref instanceof Call;
    }

    static boolean isStanding(Ref ref) {
        return ref instanceof Standing;
    }

    /** Something was sent to the reference of a call. */
    static void deliver(LocalProcess process, Ref ref, Object message) {
        Call call = (Call) ref;
        if (call.isAddress()) {
            Simulated.note("reply", process.pid(), message);
            call.end(message);
        }
    }

    /** The process is about to wait in its mailbox: it may never call again. */
    static void waitsElsewhere(LocalProcess me) {
        if (me.standing != null && me.standing.isForOneCall()) {
            stand(me, null);
        }
    }

    /** The process is about to rest. */
    static void rests(LocalProcess me) {
        if (me.standing != null) {
            stand(me, null);
        }
    }

    /** Under the monitor of the process, whose mailbox is closed: it exits. */
    static void exits(LocalProcess me) {
        Call open = me.standing == null ? null : me.standing.call;
        if (open != null) {
            open.end(NOTHING);
        }
    }

    /** The process that the standing monitor watches has died. */
    static void watchedDied(LocalProcess me, Monitor m, Object why) {
        Standing standing = (Standing) m;
        synchronized (me) {
            Monitors.endUnderMonitor(me, standing);
            me.standing = me.standing == standing ? null : me.standing;
        }
        standing.end();
        Simulated.switchPoint();
        Call open = standing.call;
        if (open != null) {
            open.end(new Failed(Why.DOWN, why, open));
        }
    }

    /** The watcher of a standing monitor calls in it no more. */
    static void forgotten(Monitor m) {
        ((Standing) m).end();
    }

    // --- the two references ------------------------------------------------------------------------------------------

    /** A call whose caller waits for nothing else: what is sent to its reference goes to the waiting caller, past its mailbox. */
    private static final class Call extends Monitor {
        // Set before others have the reference, taken back by the caller: what is sent later comes to nobody.
        private Parked waiter;

        Call(long id, Pid maker, long mark, Object object, Standing in, Parked waiter) {
            super(id, in.incarnation(), maker, mark, in.watched, object, Words.get().down);
            this.waiter = waiter;
        }

        @Override
        public boolean isPlain() {
            return false;
        }

        @Override
        boolean isAddress() {
            Parked w = waiter;
            return w != null && w.isOpen();
        }

        /** Ends the call with this, unless it has ended. */
        void end(Object message) {
            Parked w = waiter;
            if (w != null && w.claim()) {
                w.complete(this, message);
            }
        }
    }

    /** The monitor that stands from one call of a process to its next, while it calls the same process: neither side changes a list for a call. */
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
        private volatile Alarm alarm;

        // Only accessed by the caller: true when the first call has ended.
        private boolean again;

        Standing(long id, long creation, Pid maker, Pid watched) {
            super(id, creation, maker, 0, watched, watched, null);
        }

        @Override
        Monitor call() {
            return call;
        }

        /** Opens a call. Called by the caller, who waits for no other. */
        void open(Call next, long deadline, World world) {
            if (alarm == null && again) {
                alarm = new CallAlarm(world);
            }
            if (alarm != null) {
                alarm.set(deadline);
            }
            Simulated.switchPoint();
            call = next;
        }

        /** True if there was one call only, which has ended. Called by the caller. */
        boolean isForOneCall() {
            return alarm == null && call == null;
        }

        /** True if time ends the call without a timer of its own. Called by the caller. */
        boolean limits(Call open, long deadline) {
            return !open.isAddress() || alarm != null && deadline != Durations.INFINITE && alarm.arm();
        }

        /** The caller waits no longer. */
        void close() {
            if (alarm != null) {
                alarm.lift();
            }
            CALL.setRelease(this, (Call) null);
            again = true;
        }

        /** Nobody calls in it any more. */
        void end() {
            Alarm a = alarm;
            if (a != null) {
                a.end();
            }
        }

        private final class CallAlarm extends Alarm {
            CallAlarm(World world) {
                super(world);
            }

            @Override
            protected Parked waiter() {
                Call open = call;
                return open == null ? null : open.waiter;
            }
        }
    }
}
