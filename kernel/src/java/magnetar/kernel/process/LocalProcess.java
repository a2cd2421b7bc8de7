package magnetar.kernel.process;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import magnetar.kernel.fiber.Cause;
import magnetar.kernel.fiber.Exit;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Region;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.StackRoom;
import magnetar.kernel.fiber.World;
import magnetar.kernel.park.Gate;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Expiry;
import magnetar.kernel.time.Waits;

/**
 * A process as Erlang means it: a mailbox, links, monitors, and a death that others learn of. It is a region of the fiber that runs it, so an
 * exit signal dooms what that fiber does, wherever it waits, and nothing beyond.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A signal acts on arrival, by the thread that sends it: so the signals of one sender act in the order in which they were sent. Trap
 *       flag, links, monitors and life change under the monitor of their process only.
 *   <li>Life goes from ALIVE to EXITING to DEAD, or at once to DEAD. From EXITING on the name is free, the mailbox closed, and exit signals
 *       but a kill are ignored; the reason does not change any more. The process is DEAD when its body has ended with all scopes in it, or at
 *       once when it was killed.
 *   <li>Links are symmetric, but for one side that is DEAD: both are changed under both monitors.
 *   <li>A monitor that the watcher lists has not fired. Whoever takes it out of that list, under the watcher's monitor, decides: the death of
 *       the watched adds the message under it, a demonitor none. So after a demonitor no message comes that is not in the mailbox yet.
 *   <li>Name, list of links and of monitors are empty before anybody learns of the death, and what it owned has been told.
 *   <li>No interrupt is sent to the thread once DEAD was written by the thread itself.
 *   <li>Memory may end while it dies. So what a step needs is allocated before the step changes anything, and a step that fails is done again, when the others
 *       have given memory back. One that dies because memory has ended drops its own mailbox before all else.
 *   <li>Who waits for the answer to a {@link Call} alone is not in its mailbox. The mailbox is closed before what is open is asked for, and a call is open
 *       before the mailbox is looked at: so a process that has to end does not wait for an answer, not even in a shield.
 * </ol>
 *
 * <p>Differences from Erlang: signals are synchronous, which its rules allow; a process that ends by a signal runs its {@code finally} blocks
 * first (for them it is EXITING: what it sends is dropped), and one that was killed may run on as a zombie that nobody hears.
 *
 * <p>Lock order: monitors of processes by pid, then a mailbox. Nobody is woken under them, but by an interrupt, and
 * those that wait for a mailbox that closes: its owner, senders, and an owner that waits for an answer.
 */
public final class LocalProcess extends Region {
    private enum Life {
        ALIVE,
        EXITING,
        DEAD
    }

    private static final Object AT_REST = new Object();

    private final Pid pid;
    private final Mailbox mailbox;

    // Written under the monitor, read by any thread.
    private volatile Life life = Life.ALIVE;
    private volatile Gate suspended;
    private volatile Pid tracer;

    // Guarded by the monitor.
    private Bag<Pid> links;
    private Bag<Monitor> watchers;
    private Bag<Monitor> watching;
    private Bag<Owned> owned;
    private Asking asking; // also read by the owner, who alone sets it but for its end: what it reads too late watches a dead process, or is a dead one's
    private boolean traps;
    private Object reason;
    private Object name;
    private Gate gone;
    private int suspensions;

    // Only written by the owner, read by any thread.
    private volatile Object dictionary;

    // Set by the starter, then by any thread.
    private volatile Pid leader;

    // Guarded by the part of the list of those at rest that it is in.
    LocalProcess restsBefore;
    LocalProcess restsAfter;
    boolean listedAtRest;

    LocalProcess(Pid pid, Mailbox mailbox) {
        this.pid = pid;
        this.mailbox = mailbox;
        pid.bear(this);
    }

    // --- who it is ---------------------------------------------------------------------------------------------------

    /** The process that the current thread is, or null: a fork or a go block that a process has started is none. */
    public static LocalProcess current() {
        return of(Fiber.current());
    }

    static LocalProcess of(Fiber fiber) {
        for (Region r = fiber.region(); r != null; r = r.outer()) {
            if (r instanceof LocalProcess p) {
                return p;
            }
        }
        return null;
    }

    /** Its pid. */
    public Pid pid() {
        return pid;
    }

    boolean isAlive() {
        return life == Life.ALIVE;
    }

    boolean isDead() {
        return life == Life.DEAD;
    }

    /** Its registered name, or null. */
    public synchronized Object name() {
        return name;
    }

    /** Whether exit signals become messages. */
    public synchronized boolean trapsExits() {
        return traps;
    }

    /** Whether it still waits for an answer at this alias of its own. */
    public synchronized boolean awaits(Ref alias) {
        return alias.maker() == pid && alias.isAddress();
    }

    /** What the face keeps for its owner. */
    public Object dictionary() {
        return dictionary;
    }

    /** Replaces what the face keeps; called by the owner. */
    public void setDictionary(Object next) {
        dictionary = next;
    }

    /** Its group leader; itself if nobody set one. */
    public Pid leader() {
        Pid l = leader;
        return l == null ? pid : l;
    }

    /** Sets the group leader, which the processes that it starts from now on have as well. */
    public void setLeader(Pid next) {
        leader = next;
    }

    /** Sends what it sends and receives to this process as well, or with null no longer. */
    public void trace(Pid to) {
        tracer = to;
    }

    /** Sets whether exit signals become messages; returns what was before. */
    public boolean trapExits(boolean on) {
        Fiber.current().enter();
        return setTraps(on);
    }

    synchronized boolean setTraps(boolean on) {
        boolean before = traps;
        traps = on;
        return before;
    }

    // --- messages ----------------------------------------------------------------------------------------------------

    /** Adds a message that was sent to this address of its. */
    void take(Fiber sender, Object to, Object message) throws InterruptedException {
        if (to instanceof Ref alias) {
            deliverTo(alias, message);
        } else {
            deliver(sender, message);
        }
    }

    boolean isBounded() {
        return mailbox instanceof BoundedMailbox;
    }

    /** Adds a message of the current fiber; waits where the mailbox is bounded and blocks. */
    void deliver(Fiber sender, Object message) throws InterruptedException {
        Node node = new Node(message);
        Waiter answer = mailbox.push(node);
        if (answer == Mailbox.FULL) {
            answer = whenFull(sender, node, (BoundedMailbox) mailbox);
        }
        if (answer == Mailbox.CLOSED) {
            DeadLetters.add(pid, message);
        } else {
            Simulated.note("message", pid, message);
            if (answer != null) {
                answer.complete(mailbox, null);
            }
        }
    }

    /** Adds a message that no bound applies to and that never waits; false if the process is dead. */
    boolean deliverSignal(Object message) {
        Simulated.note("timer message", pid, message);
        return settle(mailbox.pushSignal(new Node(message)));
    }

    private boolean settle(Waiter answer) {
        if (answer != null && answer != Mailbox.CLOSED) {
            answer.complete(mailbox, null);
        }
        return answer != Mailbox.CLOSED;
    }

    private Waiter whenFull(Fiber sender, Node node, BoundedMailbox full) throws InterruptedException {
        switch (full.policy) {
            case DROP_NEW, DROP_OLD:
                return Mailbox.CLOSED;
            case FAIL:
                throw misuse("mailbox-full", "The mailbox of " + pid + " is full: it holds " + full.capacity
                        + (full.capacity == 1 ? " message" : " messages") + ", and was made to refuse more. Send less, or wait for answers.");
            default:
                if (of(sender) == this) {
                    throw misuse("mailbox-full", "The process " + pid + " sends to itself, and its own mailbox is full with " + full.capacity
                            + " messages: it would wait for itself. Receive first.");
                }
                return awaitRoom(sender, node, full);
        }
    }

    private Waiter awaitRoom(Fiber sender, Node node, BoundedMailbox full) throws InterruptedException {
        for (;;) {
            Waiter answer = Mailbox.FULL;
            Parked waiter = new Parked(sender, WaitReason.MAILBOX_ROOM, pid);
            try {
                if (full.awaitRoom(waiter)) {
                    waiter.await();
                }
                sender.check();
                answer = full.push(node);
            } finally {
                if (answer == Mailbox.FULL) {
                    full.giveUp(waiter);
                }
            }
            if (answer != Mailbox.FULL) {
                return answer;
            }
        }
    }

    private RuntimeException misuse(String kind, String sentence) {
        return Words.language().misuse(kind, sentence, Map.of("pid", pid));
    }

    /**
     * Takes the first message, in the order of arrival, that the matcher takes; the others stay. Called by the owner.
     *
     * @param nanos how long to wait; {@link Durations#INFINITE} without end
     * @param mark no message is looked at that arrived before
     * @return what the matcher made of it; null if time ran out
     */
    public Object receive(Matcher matcher, long nanos, long mark) throws InterruptedException {
        Fiber fiber = fiber();
        fiber.enter();
        long deadline = 0;
        Node from = mailbox.after(mark);
        for (;;) {
            Object taken = take(matcher, from);
            if (taken != null || nanos <= 0) {
                return taken;
            }
            boolean first = deadline == 0;
            deadline = first ? Waits.deadline(fiber.world(), nanos) : deadline;
            if (!first && isOver(fiber, deadline) || !await(fiber, deadline)) {
                return null;
            }
            from = null;
        }
    }

    /**
     * Sends the request of a call that was {@link #openCall opened} and takes the answer, or the message that the callee has died; null if time runs out, which
     * began to run when it was opened. The callee is woken when this one has nothing left to do but to park: else a second core finds both runnable, and they
     * answer each other from core to core.
     */
    public Object ask(Pid callee, Object request, Matcher matcher, long nanos, Ref ref) throws InterruptedException {
        if (!(ref instanceof Call call)) {
            Processes.send(callee, request);
            return receive(matcher, nanos, ref.mark());
        }
        Parked waiter = call.waiter();
        boolean answered;
        try {
            answered = awaitAnswer(callee, request, call, waiter);
        } finally {
            call.close();
        }
        return answered ? taken(waiter.result(), matcher, call) : null;
    }

    private boolean awaitAnswer(Pid callee, Object request, Call call, Parked waiter) throws InterruptedException {
        World world = fiber().world();
        Expiry expiry = null;
        try {
            expiry = call.isTimed() ? null : Waits.limit(world, waiter, call.deadline);
            Processes.send(callee, request);
            if (mailbox.isClosed()) {
                call.answer(Call.NOTHING);
            }
            return waiter.await();
        } finally {
            Waits.lift(world, expiry);
        }
    }

    /** What the matcher makes of what a call has ended with. Whoever has the reference may have sent something else than an answer. */
    private Object taken(Object answer, Matcher matcher, Call call) throws InterruptedException {
        if (answer == Call.NOTHING || mailbox.isClosed()) {
            throw new Exit(reason); // it has to end, and takes no message any more; in a shield, or its cause is about to be written
        }
        awaitResumption();
        Object made = matcher.match(answer);
        if (made == null) {
            settle(mailbox.pushSignal(new Node(answer)));
            return isOver(fiber(), call.deadline) ? null : receive(matcher, left(fiber(), call.deadline), call.mark());
        }
        Simulated.note("receives", pid, answer);
        traceReceipt(answer);
        return made;
    }

    /** Not if its next message has to wait itself, nor if the send may. */
    private boolean mayWaitFirst(LocalProcess server) {
        return suspended == null && !mailbox.matching && !server.isBounded();
    }

    private static boolean isOver(Fiber fiber, long deadline) {
        return deadline != Durations.INFINITE && left(fiber, deadline) <= 0;
    }

    private static long left(Fiber fiber, long deadline) {
        return deadline == Durations.INFINITE ? deadline : deadline - fiber.world().nanoTime();
    }

    /** Takes a message from this node on, or from those that arrive meanwhile; null if none fits. */
    private Object take(Matcher matcher, Node from) throws InterruptedException {
        awaitResumption();
        if (mailbox.matching) {
            throw misuse("receive-in-guard", "A guard of a receive of " + pid + " receives itself: let the guard only look at its message.");
        }
        mailbox.matching = true;
        try {
            for (Node n = from == null ? mailbox.drain() : from; n != null; n = n.next == null ? mailbox.drain() : n.next) {
                Object made = matcher.match(n.message);
                if (made != null) {
                    mailbox.remove(n);
                    Simulated.note("receives", pid, n.message);
                    traceReceipt(n.message);
                    return made;
                }
            }
            return null;
        } finally {
            mailbox.matching = false;
        }
    }

    private boolean await(Fiber fiber, long deadline) throws InterruptedException {
        if (asking != null && asking.isForOneCall()) {
            callIn(null); // it may never ask again
        }
        Parked waiter = new Parked(fiber, WaitReason.MAILBOX, pid);
        if (!mailbox.enlist(waiter)) {
            return refuseIfClosed();
        }
        boolean completed = false;
        try {
            completed = Waits.awaitUntil(fiber.world(), waiter, deadline);
        } finally {
            if (!completed) {
                mailbox.delist(waiter);
            }
        }
        return completed;
    }

    private boolean refuseIfClosed() {
        if (mailbox.isClosed()) {
            throw new Exit(reason); // in a shield: nothing will come any more
        }
        return true;
    }

    /** The mailbox as something to wait for together with channels; look through it with {@link #receive} first. Called by the owner. */
    public magnetar.kernel.park.Source source() {
        refuseIfClosed();
        return mailbox;
    }

    private Pid liveTracer() {
        Pid to = tracer;
        if (to != null && Processes.live(to) == null) {
            tracer = null;
            return null;
        }
        return to;
    }

    private void traceReceipt(Object message) {
        Pid to = liveTracer();
        if (to != null) {
            Processes.signal(to, Words.language().trace(pid, message, null));
        }
    }

    void traceSending(Object message, Object to) {
        Pid observer = liveTracer();
        if (observer != null) {
            Processes.signal(observer, Words.language().trace(pid, message, to));
        }
    }

    // --- suspension --------------------------------------------------------------------------------------------------

    /** Lets it take no message until it was resumed as often as suspended. */
    public synchronized void suspend() {
        StackRoom.touch();
        suspensions++;
        if (suspended == null) {
            suspended = new Gate();
        }
    }

    /** Takes one suspension back; false if there is none. */
    public boolean resume() {
        StackRoom.touch();
        Gate opened;
        synchronized (this) {
            if (suspensions == 0) {
                return false;
            }
            suspensions--;
            opened = suspensions == 0 ? suspended : null;
            suspended = suspensions == 0 ? null : suspended;
        }
        if (opened != null) {
            opened.open();
        }
        return true;
    }

    private void awaitResumption() throws InterruptedException {
        for (Gate g = suspended; g != null; g = suspended) {
            Waits.await(g, WaitReason.SUSPENDED, pid, Durations.INFINITE);
        }
    }

    // --- references, aliases -----------------------------------------------------------------------------------------

    /** The number of the youngest message. A guard that makes a reference must not move what is being looked at: then an older one will do. */
    private long mark() {
        return mailbox.matching ? mailbox.arrived() : mailbox.mark();
    }

    /** A new reference. Called by the owner. */
    public Ref makeRef() {
        return new Ref(Processes.nextRef(fiber()), Processes.creation(), pid, mark());
    }

    /** A new reference that is an address of this process until it is closed, or with {@code once} until a message came. */
    public Ref makeAlias(boolean once) {
        Ref ref = makeRef();
        ref.alias = once ? Ref.Alias.REPLY : Ref.Alias.OPEN;
        return ref;
    }

    /** Closes the alias; false if it was closed. */
    public synchronized boolean unalias(Ref ref) {
        boolean open = ref.maker() == pid && ref.isAddress();
        if (open) {
            ref.alias = Ref.Alias.CLOSED;
        }
        return open;
    }

    /** A message to an alias of this process: delivered if it is open. No bound applies: it is an answer. */
    void deliverTo(Ref alias, Object message) {
        if (alias instanceof Call call) {
            answer(call, message);
            return;
        }
        Waiter answer;
        Monitor closed = null;
        Simulated.switchPoint();
        synchronized (this) {
            if (!alias.isAddress()) {
                return;
            }
            if (alias.alias == Ref.Alias.REPLY_DEMONITOR && Bag.remove(watching, alias)) {
                closed = (Monitor) alias;
            }
            if (alias.alias == Ref.Alias.REPLY || alias.alias == Ref.Alias.REPLY_DEMONITOR) {
                alias.alias = Ref.Alias.CLOSED;
            }
            answer = mailbox.pushSignal(new Node(message));
        }
        Simulated.note("reply", pid, message);
        forget(closed);
        settle(answer); // last: who answers parks next, and wants no other core to come between
    }

    private void answer(Call call, Object message) {
        Simulated.switchPoint();
        if (call.isAddress()) {
            Simulated.note("reply", pid, message);
            call.answer(message);
        }
    }

    // --- monitors ----------------------------------------------------------------------------------------------------

    /**
     * Watches a process. Called by the owner.
     *
     * @param object how the message of its end names it
     * @param tag how the message begins; null for the usual word
     * @param mode what the reference is as an address
     */
    public Ref monitor(Pid watched, Object object, Object tag, String mode) {
        Ways.settle(watched);
        LocalProcess p = Processes.live(watched);
        Monitor m = newMonitor(p == null ? watched : p.pid, object, tag, Ref.Alias.valueOf(mode));
        if (keeps(m)) {
            begin(m, p, false);
        }
        return m;
    }

    /** A monitor as {@link #monitor} makes it, of what cannot be reached: it fires at once, for this reason. Called by the owner. */
    public Ref monitorUnreachable(Pid stand, Object object, Object tag, String mode, Object reason) {
        Monitor m = newMonitor(stand, object, tag, Ref.Alias.valueOf(mode));
        if (keeps(m)) {
            Simulated.switchPoint();
            fire(m, reason);
        }
        return m;
    }

    /** Adds the monitor to those that this process has; false if this process is dead. */
    private synchronized boolean keeps(Monitor m) {
        if (life == Life.DEAD) {
            return false;
        }
        watching = Bag.with(watching, m);
        return true;
    }

    Monitor newMonitor(Pid watched, Object object, Object tag, Ref.Alias alias) {
        Monitor m = new Monitor(Processes.nextRef(fiber()), Processes.creation(), pid, mark(), watched, object, tag == null ? Words.get().down : tag);
        m.alias = alias;
        return m;
    }

    /**
     * The reference of a call that {@link #ask} is about to send: an address for one answer, and a monitor until that has come, for so many nanoseconds. Called by
     * the owner.
     */
    public Ref openCall(Pid callee, Object object, long nanos) {
        Ways.settle(callee);
        LocalProcess p = Processes.live(callee);
        if (p == null || nanos <= 0 || !mayWaitFirst(p)) {
            return monitor(callee, object, null, Ref.Alias.REPLY_DEMONITOR.name());
        }
        Fiber fiber = fiber();
        Asking a = asking;
        Asking in = a != null && a.watched == p.pid ? a : new Asking(Processes.nextRef(fiber), Processes.creation(), pid, p.pid);
        Call call = new Call(Processes.nextRef(fiber), pid, mark(), object, in, new Parked(fiber, WaitReason.MAILBOX, pid), Waits.deadline(fiber.world(), nanos));
        in.open(call, fiber.world());
        watchCalls(in, in == a, p);
        return call;
    }

    private void watchCalls(Asking in, boolean listed, LocalProcess p) {
        Simulated.switchPoint();
        if (!listed) {
            if (callIn(in)) {
                begin(in, p, false);
            }
        } else if (in.watched.process() == null) {
            Simulated.settle(in.watched, pid);
            fire(in, Words.get().noproc);
        }
    }

    /** Lists the monitor that its calls are open in from now on, or none, in place of the last one; false, and nothing was done, if it is dead. */
    private boolean callIn(Asking next) {
        Asking before;
        synchronized (this) {
            if (life == Life.DEAD) {
                return false;
            }
            before = asking;
            if (before != null) {
                Bag.remove(watching, before);
            }
            if (next != null) {
                watching = Bag.with(watching, next);
            }
            asking = next;
        }
        forget(before);
        return true;
    }

    /** The reference of a call that is answered here and now, if all goes well: an address for one answer. Else {@link #watch} it. */
    public Ref addressOfCall(Pid callee, Object object) {
        return newMonitor(callee, object, null, Ref.Alias.REPLY_DEMONITOR);
    }

    /** Monitors whom an {@link #addressOfCall} is for, unless the answer has come. */
    public void watch(Ref call) {
        Monitor m = (Monitor) call;
        Simulated.switchPoint();
        synchronized (this) {
            if (life == Life.DEAD || !m.isAddress()) {
                return;
            }
            watching = Bag.with(watching, m);
        }
        begin(m, m.watched.process(), true);
    }

    private void begin(Monitor m, LocalProcess p, boolean wasAlive) {
        Simulated.switchPoint();
        if (p == null || !p.addWatcher(m)) {
            Simulated.settle(m.watched, pid);
            fire(m, wasAlive ? m.watched.ended().reason() : Words.get().noproc);
        }
        Simulated.switchPoint();
        if (life == Life.DEAD) {
            forget(m);
        }
    }

    private synchronized boolean addWatcher(Monitor m) {
        if (life == Life.DEAD) {
            return false;
        }
        watchers = Bag.with(watchers, m);
        return true;
    }

    /** The watched process has died. */
    private void fire(Monitor m, Object why) {
        if (m.call() != null) {
            Simulated.note("down", pid, why);
        }
        Simulated.switchPoint();
        if (m instanceof Asking a) {
            endCalls(a, why);
            return;
        }
        Waiter answer = null;
        synchronized (this) {
            if (Bag.contains(watching, m)) {
                Node down = new Node(Words.language().down(m.tag, m, m.object, why));
                Bag.remove(watching, m);
                closeAlias(m);
                answer = mailbox.pushSignal(down);
            }
        }
        settle(answer);
    }

    private void endCalls(Asking a, Object why) {
        synchronized (this) {
            Bag.remove(watching, a);
            asking = asking == a ? null : asking;
        }
        a.end();
        Simulated.switchPoint();
        Call open = a.call();
        if (open != null) {
            open.answer(Words.language().down(open.tag, open, open.object, why));
        }
    }

    private static void closeAlias(Monitor m) {
        if (m.alias == Ref.Alias.DEMONITOR || m.alias == Ref.Alias.REPLY_DEMONITOR) {
            m.alias = Ref.Alias.CLOSED;
        }
    }

    /** Ends a monitor; false if it had ended, or is none of this process. */
    public boolean demonitor(Ref ref) {
        Fiber.current().enter();
        if (!(ref instanceof Monitor m)) {
            return false;
        }
        Ways.settle(m.watched);
        boolean was;
        Simulated.switchPoint();
        synchronized (this) {
            was = Bag.remove(watching, m);
            if (m.maker() == pid) {
                closeAlias(m);
            }
        }
        forget(was ? m : null);
        return was;
    }

    private static void forget(Monitor m) {
        LocalProcess p = m == null ? null : m.watched.process();
        if (m instanceof Asking a) {
            a.end();
        }
        if (p != null) {
            Simulated.switchPoint();
            synchronized (p) {
                if (Bag.remove(p.watchers, m) && p.fiber() == null) {
                    p.watchers = Bag.slim(p.watchers); // it rests: whoever has started it takes the monitor back about now
                }
            }
        }
    }

    /** How many monitors of this process still let it be answered to: calls that were neither answered nor given up. */
    public synchronized int openCalls() {
        return (int) monitors(watching).filter(Monitor::isAddress).count();
    }

    // --- links -------------------------------------------------------------------------------------------------------

    /** Links this process, the current one, and another; false if the other is dead and this one does not trap exits. */
    public boolean link(Pid other) {
        Fiber.current().enter();
        Ways.settle(other);
        LocalProcess p = Processes.live(other);
        if (p == this || isLinked(other) || p != null && p.join(this)) {
            return true;
        }
        fiber().check(); // it may have been killed itself
        Simulated.settle(other, pid);
        return noproc(other);
    }

    /** True if there is a link already: its end has still to come, also if the other is dead by now. */
    public synchronized boolean isLinked(Pid other) {
        return Bag.contains(links, other);
    }

    /** Links both; false, and no link, if one is dead. */
    boolean join(LocalProcess other) {
        boolean inOrder = pid.compareTo(other.pid) < 0;
        Simulated.switchPoint();
        synchronized (inOrder ? this : other) {
            synchronized (inOrder ? other : this) {
                if (life == Life.DEAD || other.life == Life.DEAD) {
                    return false;
                }
                links = Bag.with(links, other.pid);
                other.links = Bag.with(other.links, pid);
                return true;
            }
        }
    }

    /**
     * Gives a process that was started, before it runs, its name, its link and its monitor: all at one instant, so that whoever finds it by its
     * name finds it with them, and its end is told with its true reason however soon it comes. What stands in the way of the name, or null.
     */
    String settle(LocalProcess spawner, Object wanted, boolean linked, Monitor m) {
        LocalProcess other = spawner == null ? this : spawner;
        boolean inOrder = pid.compareTo(other.pid) < 0;
        boolean dead; // somebody has found it in the list of all processes
        Simulated.switchPoint();
        synchronized (inOrder ? this : other) {
            synchronized (inOrder ? other : this) {
                if (spawner != null && spawner.life == Life.DEAD) {
                    throw new Exit(Words.get().killed); // a child without its link may not live
                }
                String obstacle = wanted == null || life != Life.ALIVE ? null : register(wanted);
                if (obstacle != null) {
                    return obstacle;
                }
                dead = life == Life.DEAD;
                tie(other, linked, m, dead);
            }
        }
        if (dead) {
            new Obituary(pid, reason, linked ? List.of(other.pid) : List.of(), m == null ? List.of() : List.of(m), List.of(), List.of(), null).announce();
        }
        return null;
    }

    private void tie(LocalProcess spawner, boolean linked, Monitor m, boolean dead) {
        if (linked) {
            spawner.links = Bag.with(spawner.links, pid);
            links = dead ? null : Bag.with(links, spawner.pid);
        }
        if (m != null) {
            spawner.watching = Bag.with(spawner.watching, m);
            watchers = dead ? null : Bag.with(watchers, m);
        }
    }

    private boolean noproc(Pid dead) {
        Waiter answer;
        Simulated.switchPoint();
        synchronized (this) {
            if (!traps) {
                return false;
            }
            answer = mailbox.pushSignal(new Node(Words.language().exit(dead, Words.get().noproc)));
        }
        settle(answer);
        return true;
    }

    /** Undoes a link, if there is one: from now on the death of the other does nothing here. */
    public void unlink(Pid other) {
        Fiber.current().enter();
        Ways.settle(other);
        LocalProcess p = Processes.live(other);
        Simulated.switchPoint();
        if (p == null || p == this) {
            synchronized (this) {
                Bag.remove(links, other);
            }
            return;
        }
        boolean inOrder = pid.compareTo(other) < 0;
        synchronized (inOrder ? this : p) {
            synchronized (inOrder ? p : this) {
                Bag.remove(links, other);
                Bag.remove(p.links, pid);
            }
        }
    }

    // --- names -------------------------------------------------------------------------------------------------------

    /** Gives it a name; what stands in the way, or null. */
    synchronized String register(Object wanted) {
        if (life != Life.ALIVE) {
            return "it is not alive";
        }
        if (name != null) {
            return "it has the name " + name + " already";
        }
        LocalProcess taken = Names.claim(wanted, this);
        if (taken != null) {
            return "the name belongs to " + taken.pid;
        }
        name = wanted;
        return null;
    }

    /** Takes its name away; false if it has not this one. */
    synchronized boolean unregister(Object given) {
        if (!given.equals(name)) {
            return false;
        }
        Names.release(given, this);
        name = null;
        return true;
    }

    // --- what it owns ------------------------------------------------------------------------------------------------

    /** Lets it own this, until it dies or disowns it; false, and nothing is changed, if it is dead. */
    public synchronized boolean own(Owned thing) {
        boolean can = life != Life.DEAD;
        if (can) {
            owned = Bag.with(owned, thing);
        }
        return can;
    }

    /** Ends that: its death does nothing to this any more. */
    public synchronized void disown(Owned thing) {
        Bag.remove(owned, thing);
    }

    /** What it owns, in the order in which it came to it. */
    public synchronized List<Owned> belongings() {
        return List.copyOf(Bag.list(owned));
    }

    // --- exit --------------------------------------------------------------------------------------------------------

    /** An exit signal arrives. */
    void exit(Pid from, Object why, boolean overLink) {
        Simulated.note("exit signal", pid, why);
        Simulated.switchPoint();
        Waiter answer = null;
        Obituary obituary = null;
        synchronized (this) {
            if (life == Life.DEAD || overLink && !Bag.contains(links, from)) {
                return;
            }
            Words words = Words.get();
            boolean alive = life == Life.ALIVE;
            boolean kills = !overLink && words.kill.equals(why);
            Node told = alive && traps && !kills ? new Node(words.language.exit(from, why)) : null;
            boolean leaves = alive && !traps && !kills && (!words.normal.equals(why) || !overLink && from == pid);
            Cause cause = leaves ? new Cause.Leave(why) : null;
            if (overLink) {
                Bag.remove(links, from);
            }
            if (kills) {
                obituary = kill(words.killed);
            } else if (told != null) {
                answer = mailbox.pushSignal(told);
            } else if (leaves) {
                leave(why);
                doomRegion(cause);
            }
        }
        settle(answer);
        if (obituary != null) {
            obituary.announce();
        }
    }

    /** Under the monitor: not alive for others any more. */
    private void leave(Object why) {
        life = Life.EXITING;
        reason = why;
        if (name != null) {
            Names.release(name, this);
            name = null;
        }
        mailbox.close();
        Call open = asking == null ? null : asking.call();
        if (open != null) {
            open.answer(Call.NOTHING);
        }
    }

    /** Under the monitor: dead at once for everybody else, whatever its thread does. */
    private Obituary kill(Object why) {
        Cause cause = new Cause.Kill(life == Life.ALIVE ? why : reason);
        Zombies.add(this);
        if (life == Life.ALIVE) {
            leave(why);
        }
        doomRegion(cause);
        return die(null);
    }

    /** Under the monitor. */
    private Obituary die(Object value) {
        Pid.Ended ended = new Pid.Ended(reason, value);
        Obituary obituary = new Obituary(pid, reason, Bag.list(links), Bag.list(watchers), Bag.list(watching), Bag.list(owned), gone);
        life = Life.DEAD;
        pid.bury(ended);
        links = null;
        watchers = null;
        watching = null;
        asking = null;
        owned = null;
        return obituary;
    }

    /** The body has ended, with everything in it. */
    private void end(Object why, Object value) {
        Simulated.switchPoint();
        boolean own = false;
        for (;;) {
            try {
                Obituary obituary;
                synchronized (this) {
                    if (life == Life.DEAD) {
                        return;
                    }
                    if (life == Life.ALIVE) {
                        own = true;
                        leave(why);
                    }
                    obituary = die(own ? value : null);
                }
                obituary.announce();
                return;
            } catch (OutOfMemoryError noRoom) {
                letOthersRun();
            }
        }
    }

    /** Memory has ended: lets others run, who may give some back. Not by a timed park, for which a virtual thread needs memory itself. */
    private static void letOthersRun() {
        try {
            if (Thread.currentThread().isVirtual()) {
                Thread.yield();
            } else {
                LockSupport.parkNanos(1_000_000);
            }
        } catch (OutOfMemoryError noRoom) {
            Thread.onSpinWait();
        }
    }

    /** What has to be told after a death. */
    private record Obituary(Pid dead, Object why, List<Pid> links, List<Monitor> watchers, List<Monitor> watching, List<Owned> owned,
            Gate gone) {
        /** Tells all who have to be told. One who was not told because memory has ended is told again, until it is done: does not throw. */
        void announce() {
            Simulated.note("dies", dead, why);
            int all = owned.size() + links.size() + watchers.size() + watching.size() + 1;
            for (int n = 0; n < all; ) {
                try {
                    tell(n);
                    n++;
                } catch (OutOfMemoryError noRoom) {
                    letOthersRun();
                }
            }
        }

        private void tell(int n) {
            int link = n - owned.size();
            int watcher = link - links.size();
            int watched = watcher - watchers.size();
            if (link < 0) {
                Simulated.switchPoint();
                owned.get(n).ownerDied(dead);
            } else if (watcher < 0) {
                tellLinked(links.get(link).process());
            } else if (watched < 0) {
                tellWatcher(watchers.get(watcher));
            } else if (watched < watching.size()) {
                forget(watching.get(watched));
            } else if (gone != null) {
                gone.open();
            }
        }

        private void tellLinked(LocalProcess p) {
            if (p != null && !(Simulated.mayDelay() && Simulated.delays(dead, p.pid, why, () -> p.exit(dead, why, true)))) {
                p.exit(dead, why, true);
            }
        }

        private void tellWatcher(Monitor m) {
            LocalProcess p = m.maker().process();
            if (p != null && !(Simulated.mayDelay() && m.call() != null && Simulated.delays(dead, p.pid, why, () -> p.fire(m, why)))) {
                p.fire(m, why);
            }
        }
    }

    /** Waits until it has ended, for so many nanoseconds; true if it has. */
    boolean awaitEnd(long nanos) throws InterruptedException {
        Gate gate;
        Simulated.switchPoint();
        synchronized (this) {
            if (life == Life.DEAD) {
                return true;
            }
            gone = gone == null ? new Gate() : gone;
            gate = gone;
        }
        return Waits.await(gate, WaitReason.PROCESS_END, pid, nanos);
    }

    // --- running -----------------------------------------------------------------------------------------------------

    /** Drops the stack of the current process and goes on with this. */
    static final class Continue extends Error {
        private static final long serialVersionUID = 1L;
        private final transient LocalProcess process;
        private final transient Callable<?> next;
        private final boolean atRest;
        private final transient Object context; // of the one who rests: what is unwound puts another one back

        Continue(LocalProcess process, Callable<?> next, boolean atRest, Object context) {
            super("`continue` leaves its process by this error: a (catch Throwable ..) around it has to throw it again", null, false, false);
            this.process = process;
            this.next = next;
            this.atRest = atRest;
            this.context = context;
        }
    }

    /** Never returns: the current process drops its stack, and goes on with this work. */
    public void continueWith(Callable<?> next) {
        fiber().check();
        throw new Continue(this, next, false, null);
    }

    /** True of what a process throws to drop its stack and go on: no failure. Code that catches everything throws it on. */
    public static boolean isContinue(Throwable thrown) {
        return thrown instanceof Continue;
    }

    /**
     * The same {@code Continue}, for a process that goes on with {@code around} its next work. That of a process that
     * gives its fiber back is left as it is: its work says whether the process may be lent.
     */
    public static Error goingOn(Throwable thrown, UnaryOperator<Callable<?>> around) {
        Continue c = (Continue) thrown;
        return c.atRest ? c : new Continue(c.process, around.apply(c.next), false, c.context);
    }

    /**
     * Never returns: the current process drops its stack and gives its fiber back. The next message, or an exit signal, starts another one, which
     * goes on with this work. Called by the owner, outside of all scopes, when it has looked through its mailbox and found nothing.
     */
    public void rest(Callable<?> next) {
        fiber().check();
        throw new Continue(this, next, true, fiber().context());
    }

    /** What the fiber that will run it is, so that it can be told to exit before it runs. */
    void hostedBy(Fiber soon) {
        expect(soon);
    }

    /** What runs a process: its fiber, and where a failure of the body is reported. One object, since a parked process keeps its frames. */
    interface Runner {
        Fiber runner();

        /** Reports what the body threw, before anybody learns of the death; false if that is left to the caller of {@link #run}. */
        boolean reports(Throwable thrown);
    }

    /**
     * Runs it on the current fiber to its end, or until it is at rest; returns what its body threw unless that was reported, or null. Its frame is
     * on the stack for as long as the process lives, so what is done afterwards is done elsewhere.
     */
    Throwable run(Runner on, Callable<?> work) {
        enter(on.runner());
        Object value;
        try {
            on.runner().check();
            value = call(on.runner(), work);
        } catch (Throwable t) {
            return fail(on, t);
        }
        if (value != AT_REST) {
            conclude(on.runner(), null, value);
        }
        return null;
    }

    /**
     * The report comes before the death notices: a program that ends when it learns of the death shows the report all the same. Not so if an
     * exit signal has come, which would end the operations of a hook, nor without memory, which the death gives back.
     */
    private Throwable fail(Runner on, Throwable thrown) {
        if (thrown instanceof OutOfMemoryError) {
            dropMailbox();
        }
        boolean reported = false;
        try {
            reported = cause() == null && !(thrown instanceof OutOfMemoryError) && on.reports(thrown);
        } finally {
            conclude(on.runner(), thrown, null);
        }
        return reported ? null : thrown;
    }

    /** Drops what may be what fills the memory. */
    private void dropMailbox() {
        try {
            LongQueues.ended(pid, mailbox.size());
            mailbox.drop();
        } catch (OutOfMemoryError noRoom) {
            // The death closes it, and tries until there is room.
        }
    }

    private void conclude(Fiber host, Throwable thrown, Object value) {
        try {
            end(thrown == null ? Words.get().normal : reasonOf(thrown), value);
        } finally {
            host.leaveRegion();
            Zombies.remove(this);
        }
    }

    /** What the language makes of it. An error may fail to say what it is: the process dies all the same. */
    private static Object reasonOf(Throwable thrown) {
        try {
            return Words.language().reason(thrown);
        } catch (OutOfMemoryError noRoom) {
            return Words.get().noMemory;
        } catch (Throwable unspeakable) {
            return thrown.getClass().getName().concat(", which failed to say what it is");
        }
    }

    private Object call(Fiber host, Callable<?> work) throws Exception {
        Callable<?> next = work;
        for (;;) {
            try {
                return next.call();
            } catch (Continue c) {
                if (c.process != this) {
                    throw c;
                }
                next = c.next;
                if (c.atRest && goToRest(host, c)) {
                    return AT_REST;
                }
            }
        }
    }

    // Under the monitor, so that a signal finds either the fiber to interrupt, or none and the mailbox to close.
    private synchronized void enter(Fiber host) {
        host.enterRegion(this);
    }

    private synchronized void vacate(Fiber host) {
        host.vacateRegion();
    }

    // There may be a million of them.
    private synchronized void dropEmptyBags() {
        links = Bag.slim(links);
        watchers = Bag.slim(watchers);
        watching = Bag.slim(watching);
        owned = Bag.slim(owned);
    }

    /** True if it is at rest: this fiber has nothing to do with it any more. False if there is something to do. */
    private boolean goToRest(Fiber host, Continue c) {
        if (asking != null) {
            callIn(null);
        }
        dropEmptyBags();
        AtRest rest = new AtRest(this, c.next, c.context); // before it gives its fiber back: memory may end
        vacate(host);
        Resting.add(this);
        if (mailbox.enlist(rest)) {
            return true;
        }
        Resting.remove(this);
        enter(host);
        host.setContext(c.context);
        host.check();
        return false;
    }

    /** True if no message of its owner's may pass it by: it is not suspended, no receive is under way, nobody is told what it does. */
    boolean isUnwatched() {
        return suspended == null && tracer == null && !mailbox.matching;
    }

    /** What it waits in its mailbox with, if it is at rest; else null. */
    AtRest atRest() {
        return mailbox instanceof OpenMailbox open && open.waiter() instanceof AtRest rest ? rest : null;
    }

    /** What it waits with, if it rests and lends itself; else null. */
    AtRest offer() {
        AtRest rest = atRest();
        return rest != null && rest.lends() ? rest : null;
    }

    /** True if it rests and lends itself, or is lent, or changes over from one to the other, and no message has come: a guess. */
    boolean maySoonBeLent() {
        return (fiber() == null || runsLent()) && mailbox instanceof OpenMailbox open && open.mayLend(); // who asks one at work leaves its mailbox to those who send
    }

    /**
     * Serves the request as this process, on the fiber of another one; false, and the request was not looked at, if it was woken or has to exit.
     * It stays in the list of those at rest.
     */
    boolean lendTo(Fiber host, AtRest rest, Object request) {
        Region masked = host.masked();
        if (!host.lend()) {
            return false;
        }
        try {
            return ((OpenMailbox) mailbox).retrieve(rest) && serveOn(host, rest, request);
        } finally {
            host.takeBack(masked);
        }
    }

    private boolean serveOn(Fiber host, AtRest rest, Object request) {
        Object context = host.context();
        AtRest again = new AtRest(this, rest.next, rest.context);
        enter(host);
        host.setContext(rest.context);
        boolean doomed = host.isDoomed();
        Callable<?> next = doomed ? rest.next : served(rest, request);
        vacate(host);
        host.setContext(context);
        Simulated.switchPoint();
        again.next = next;
        if (!(next instanceof Lendable) || mailbox.oldest() != null || !mailbox.enlist(again)) {
            again.complete(null, null);
        }
        return !doomed;
    }

    private static Callable<?> served(AtRest rest, Object request) {
        try {
            return ((Lendable) rest.next).serve(request);
        } catch (Exception | Error e) {
            return new Rethrow(e);
        }
    }

    /** Work that throws what serving another one's request has thrown. */
    private record Rethrow(Throwable thrown) implements Callable<Object> {
        @Override
        public Object call() throws Exception {
            if (thrown instanceof Exception e) {
                throw e;
            }
            throw (Error) thrown;
        }
    }

    // --- views -------------------------------------------------------------------------------------------------------

    /** What is known of it at one instant, without its co-operation. */
    public synchronized ProcessInfo info() {
        return new ProcessInfo(pid, fiber() == null ? null : fiber().get(), life.name(), name, Bag.list(links),
                monitors(watchers).map(Ref::maker).toList(), monitors(watching).map(m -> m.object).toList(), mailbox.size(),
                traps, suspensions > 0, leader(), dictionary);
    }

    private static Stream<Monitor> monitors(Bag<Monitor> listed) {
        return Bag.list(listed).stream().map(Monitor::call).filter(Objects::nonNull);
    }

    /** How many messages are in its mailbox before the first one that the test takes, or -1; a guess while it takes messages. */
    public int find(Predicate<Object> wanted) {
        return mailbox.find(wanted);
    }

    /** How many messages it has. */
    int messages() {
        return mailbox.size();
    }

    boolean has(Mailbox one) {
        return mailbox == one;
    }

    /** What is known of its mailbox at one instant. */
    public MailboxInfo mailboxInfo() {
        return mailbox.info();
    }

    synchronized Zombie zombie(long nanos) {
        return new Zombie(pid, fiber() == null ? null : fiber().get(), reason, nanos);
    }

    @Override
    public String toString() {
        return "process " + pid.text() + " " + pid.label();
    }
}
