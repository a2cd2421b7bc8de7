package magnetar.kernel.process;

import java.util.List;
import java.util.Map;
import magnetar.kernel.fiber.CancellationScope;
import magnetar.kernel.fiber.Cause;
import magnetar.kernel.fiber.Exit;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Latch;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.report.NoMemory;
import magnetar.kernel.report.Telemetry;
import magnetar.kernel.sched.Fault;
import magnetar.kernel.time.Waits;

/**
 * A process in Erlang's sense: its identity and its life. It is a cancellation scope of the fiber that runs
 * it. So an exit signal cancels only the part of the fiber that is inside the process, wherever it waits.
 *
 * <p>The Java monitor of a process is called its lock here, since a monitor is Erlang's one-way watch. Other
 * classes work on the process under this lock, each with state of its own. {@link Receiver}, its superclass,
 * takes its messages and {@link Delivery} brings them. {@link Links} and {@link Monitors} list the processes to
 * tell of its death. {@link Aliases} and {@link Calls} bring answers. {@link Hosting} runs it.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A signal acts on arrival, on the thread that sends it. So the signals of one sender act in the order
 *       in which they were sent. The trap flag, links, monitors and life change only under the lock of their
 *       process.
 *   <li>Life goes from ALIVE to EXITING to DEAD, or at once to DEAD. From EXITING on, the name is free, the
 *       mailbox is closed, and the reason is fixed. A later exit signal only removes its link, unless it is a
 *       kill. The process is DEAD when its body and all scopes in it have ended, or at once when it was
 *       killed.
 *   <li>Before a linked or monitoring process learns of the death, the name is free, the dead process's own
 *       lists of links and monitors are empty, and the owned things were told. A link or monitor that is made
 *       after the process is DEAD may be answered earlier.
 *   <li>No interrupt is sent once the process is DEAD. A kill interrupts before it writes DEAD, under the
 *       same lock.
 *   <li>Memory may run out while the process dies. {@link DeathNotice} then repeats the notification that
 *       failed, after other threads have run. So a notification removes its link or monitor only after the
 *       message is in the mailbox. A process that dies because memory ran out first drops its own mailbox.
 * </ol>
 *
 * <p>Differences from Erlang: signals are synchronous, which its rules allow. A process that ends by a signal
 * first runs its {@code finally} blocks, in which it is EXITING and its sends are dropped. A process that was
 * killed may run on as a zombie, whose sends are dropped too.
 *
 * <p>Lock order: locks of processes by ascending pid, then one of the innermost locks: of a mailbox, of the
 * names, of the zombies, of the warnings about long queues. Under the lock of a process a thread may be
 * interrupted, and a mailbox that closes may wake its owner and its senders. No other waiter is woken.
 */
public abstract sealed class LocalProcess extends Receiver permits Spawn.OnFiber, Spawn.OnThread {
    // Its life. A byte, because a reference would cost each process 8 bytes.
    private static final byte ALIVE = 0;
    private static final byte EXITING = 1;
    private static final byte DEAD = 2;

    /** Why a process that has ended gets no name. */
    static final String NOT_ALIVE = "it is not alive. Register a process while it runs, best by the :name of its start.";

    // Written under the lock, read by any thread.
    private volatile byte life;

    // Written once, under the lock, before the mailbox is closed and before life changes to DEAD. Read by
    // threads that have seen one of the two.
    private Object reason;

    // Guarded by the lock.
    private boolean traps;

    // Guarded by the lock. Each belongs to the class of its type, and is null while it is empty.
    Links links;
    Monitors monitors;
    Calls.Standing standing;

    // Only written by the owner, read by any thread.
    private volatile Object dictionary;
    private volatile Calls.Server server;

    // Only accessed by the owner.
    private boolean passivates;

    // Set by the starter, then by any thread.
    private volatile Pid leader;

    LocalProcess(Pid pid, Mailbox mailbox) {
        super(pid, mailbox);
        pid.attach(this);
    }

    /**
     * Reports what the body threw, before other processes learn of the death; false to leave that to the
     * caller of {@link Hosting#run}.
     */
    abstract boolean reports(Throwable thrown);

    @Override
    final LocalProcess process() {
        return this;
    }

    // --- identity
    // ----------------------------------------------------------------------------------------------------

    /**
     * The process that the current thread runs, or null. A fork or a go block that a process started is not
     * that process.
     */
    public static LocalProcess current() {
        return of(Fiber.current());
    }

    /** The process that the current thread runs. Throws a misuse of the operation if it runs no process. */
    public static LocalProcess require(String operation) {
        Fiber fiber = Fiber.current();
        LocalProcess p = of(fiber);
        if (p == null) {
            throw Dialect.codec().misuse("no-process", noProcess(operation, fiber), Map.of("operation", operation));
        }
        return p;
    }

    static LocalProcess of(Fiber fiber) {
        for (CancellationScope r = fiber.cancellationScope(); r != null; r = r.outer()) {
            if (r instanceof LocalProcess p) {
                return p;
            }
        }
        return null;
    }

    private static String noProcess(String operation, Fiber fiber) {
        LocalProcess owner = ownerOf(fiber);
        String where = Thread.currentThread().getName();
        return owner == null
                ? "`" + operation + "` was called outside of a process, on " + (where.isEmpty() ? "an unnamed thread" : "\"" + where + "\"")
                        + ": start one with `spawn`, or make this thread one with `with-process`."
                : "`" + operation + "` was called in \"" + where + "\", which " + owner.pid() + " started and which is not that process: "
                        + "take what you need before, as in (let [me (self)] ..), and send to it.";
    }

    /** The process in one of whose scopes the fiber works without being that process; or null. */
    private static LocalProcess ownerOf(Fiber fiber) {
        return fiber.home() instanceof CancellationScope r && r.fiber() != null && r.fiber() != fiber ? of(r.fiber()) : null;
    }

    boolean isAlive() {
        return life == ALIVE;
    }

    boolean isDead() {
        return life == DEAD;
    }

    Object reason() {
        return reason;
    }

    /** Its registered name, or null. */
    public synchronized Object name() {
        RareState r = rare();
        return r == null ? null : r.name;
    }

    /** True if exit signals become messages. */
    public synchronized boolean trapsExits() {
        return traps;
    }

    /** Sets whether exit signals become messages. Returns the former setting. */
    public boolean trapExits(boolean on) {
        Fiber.current().enter();
        return setTraps(on);
    }

    synchronized boolean setTraps(boolean on) {
        boolean before = traps;
        traps = on;
        return before;
    }

    /** A value that the Clojure API keeps for the owner. */
    public Object dictionary() {
        return dictionary;
    }

    /** Replaces the value of {@link #dictionary}. Called by the owner. */
    public void setDictionary(Object next) {
        dictionary = next;
    }

    /** How many messages wait for it, perhaps outdated. */
    public int queued() {
        return mailbox().roughSize();
    }

    /** Its server context, or null if it handles no requests. */
    public Calls.Server server() {
        return server;
    }

    /**
     * Sets its server context, and whether it is to be {@link Hosting#passivate passivated} while it is idle.
     * Called by the owner.
     */
    public void setServer(Calls.Server context, boolean whileIdle) {
        server = context;
        passivates = whileIdle;
    }

    /** Whether it is to be passivated while it is idle. Called by the owner. */
    public boolean passivates() {
        return passivates;
    }

    /** Its group leader, which is itself unless one was set. */
    public Pid leader() {
        Pid l = leader;
        return l == null ? pid() : l;
    }

    /** Sets the group leader. Processes that it starts from now on inherit it. */
    public void setLeader(Pid next) {
        leader = next;
    }

    // --- its name and its spawner
    // ------------------------------------------------------------------------------------

    /** Registers it under a name. Returns why that is not possible and what to do, or null. */
    synchronized String register(Object wanted) {
        if (life != ALIVE) {
            return NOT_ALIVE;
        }
        RareState r = makeRare();
        if (r.name != null) {
            return "it has the name " + r.name + " already. Unregister that first.";
        }
        LocalProcess taken = Names.claim(wanted, this);
        if (taken != null) {
            return "the name belongs to " + taken.pid() + ". Choose another, or unregister that first.";
        }
        r.name = wanted;
        return null;
    }

    /** Removes its name; false if it has another name or none. */
    synchronized boolean unregister(Object given) {
        RareState r = rare();
        if (r == null || !given.equals(r.name)) {
            return false;
        }
        Names.release(given, this);
        r.name = null;
        return true;
    }

    /**
     * Gives a process that does not run yet its name, its link and its monitor, all at one instant. So a
     * thread that finds it by its name finds the other two as well. However soon it ends, its end is reported
     * with its true reason.
     *
     * @param spawner the process that started it, if that is to be linked to it or to monitor it; else null
     * @return why the name is not possible, or null
     */
    String attach(LocalProcess spawner, Object wanted, boolean linked, Monitor m) {
        Attachment step = new Attachment(spawner != null, wanted, linked, m);
        String obstacle = Links.underBoth(this, spawner == null ? this : spawner, step);
        // It is dead if another process has found it in the list of all processes and killed it.
        if (step.dead && !Fault.KILL_BEFORE_START_SENDS_NO_NOTICE.isSeeded()) {
            new DeathNotice(pid(), reason, List.of(), linked ? List.of(spawner.pid()) : List.of(), m == null ? List.of() : List.of(m), List.of(), null).announce();
        }
        return obstacle;
    }

    private static final class Attachment implements Links.Step<String> {
        private final boolean spawned;
        private final Object wanted;
        private final boolean linked;
        private final Monitor m;
        private boolean dead;

        Attachment(boolean spawned, Object wanted, boolean linked, Monitor m) {
            this.spawned = spawned;
            this.wanted = wanted;
            this.linked = linked;
            this.m = m;
        }

        @Override
        public String run(LocalProcess child, LocalProcess parent) {
            if (spawned && parent.isDead()) {
                throw new Exit(Dialect.get().killed); // a child must not live without its link
            }
            String obstacle = wanted == null || !child.isAlive() ? null : child.register(wanted);
            if (obstacle != null) {
                return obstacle;
            }
            dead = child.isDead();
            if (linked) {
                Links.tie(child, parent);
            }
            if (m != null) {
                Monitors.tie(parent, m, child);
            }
            return null;
        }
    }

    /** True for a process that a fiber or thread is for a while. */
    public boolean isGuest() {
        return this instanceof Spawn.OnThread;
    }

    // --- what it owns ------------------------------------------------------------------------------------------------

    /**
     * Makes it the owner of the thing until it dies or disowns it. Returns false, and changes nothing, if it
     * is dead.
     */
    public synchronized boolean own(Owned thing) {
        boolean can = life != DEAD;
        if (can) {
            RareState r = makeRare();
            r.owned = SmallSet.with(r.owned, thing);
        }
        return can;
    }

    /** Ends the ownership. The death of the process then has no effect on the thing. */
    public synchronized void disown(Owned thing) {
        SmallSet.remove(ownedSet(), thing);
    }

    /** The things that it owns, in the order in which it came to own them. */
    public synchronized List<Owned> owned() {
        return List.copyOf(SmallSet.list(ownedSet()));
    }

    private SmallSet<Owned> ownedSet() {
        RareState r = rare();
        return r == null ? null : r.owned;
    }

    // There may be a million idle processes.
    synchronized void dropEmptyLists() {
        links = SmallSet.slim(links);
        Monitors.slim(this);
        RareState r = rare();
        if (r != null) {
            r.owned = SmallSet.slim(r.owned);
        }
    }

    // --- its fiber ---------------------------------------------------------------------------------------------------

    /** Sets the fiber that will run it, so that an exit signal can reach it before it runs. */
    void expectFiber(Fiber soon) {
        expect(soon);
    }

    synchronized void enter(Fiber host) {
        host.enter(this);
    }

    synchronized void vacate(Fiber host) {
        host.vacate();
    }

    // --- exit --------------------------------------------------------------------------------------------------------

    /** Handles an exit signal of a sender with these context values, or null. */
    void exit(Pid from, Object why, boolean overLink, Object context) {
        Simulated.note("exit signal", pid(), why);
        boolean trapped = Fault.TRAPPING_IS_CHECKED_BEFORE_LOCK.isSeeded() && traps;
        Simulated.switchPoint();
        Waiter answer = null;
        DeathNotice notice = null;
        synchronized (this) {
            if (life == DEAD || overLink && !SmallSet.contains(links, from)) {
                return;
            }
            Dialect dialect = Dialect.get();
            boolean alive = life == ALIVE;
            boolean kills = !overLink && dialect.kill.equals(why);
            Node told = alive && (traps || trapped) && !kills ? Node.of(dialect.codec.exit(from, why), context) : null;
            boolean leaves = alive && !traps && !kills && (!dialect.normal.equals(why) || !overLink && from == pid());
            Cause cause = leaves ? new Cause.Leave(why) : null;
            if (kills) {
                notice = kill(dialect.killed);
            } else if (told != null) {
                answer = mailbox().pushSignal(told);
            } else if (leaves) {
                leave(why);
                cancelWith(cause);
                if (Fault.PROCESS_IS_DEAD_BEFORE_CLEAN_UP.isSeeded()) {
                    notice = die(null);
                }
            }
            if (overLink) {
                SmallSet.remove(links, from); // last: if memory runs out before, the signal is sent again
            }
        }
        Delivery.wake(this, answer);
        if (notice != null) {
            tellOfDeath();
            notice.announce();
        }
    }

    /**
     * Handles a link to a dead process. If this process traps exits, it gets a message; else returns false.
     */
    boolean trapsNoproc(Pid dead) {
        Waiter answer;
        Simulated.switchPoint();
        synchronized (this) {
            if (!traps) {
                return false;
            }
            answer = mailbox().pushSignal(new Node(Dialect.codec().exit(dead, Dialect.get().noproc)));
        }
        Delivery.wake(this, answer);
        return true;
    }

    /** Under the lock: from now on other processes see it as not alive. */
    private void leave(Object why) {
        life = EXITING;
        reason = why;
        RareState r = rare();
        if (r != null && r.name != null && !Fault.NAME_OUTLIVES_PROCESS.isSeeded()) {
            Names.release(r.name, this);
            r.name = null;
        }
        mailbox().close();
        Calls.exits(this);
    }

    /** Under the lock: from now on it is dead for all other processes, whatever its thread does. */
    private DeathNotice kill(Object why) {
        Cause cause = new Cause.Kill(life == ALIVE ? why : reason);
        Zombies.add(this);
        if (life == ALIVE) {
            leave(why);
        }
        cancelWith(cause);
        return die(null);
    }

    /** Under the lock. */
    private DeathNotice die(Object value) {
        Pid.Ended end = new Pid.Ended(reason, value);
        RareState r = rare();
        DeathNotice notice = new DeathNotice(pid(), reason, SmallSet.list(ownedSet()), SmallSet.list(links), Monitors.watchers(this),
                Monitors.watching(this), r == null ? null : r.ended);
        if (r != null && r.exports != null) {
            Exports.dies(this);
        }
        life = DEAD;
        pid().recordEnd(end);
        links = null;
        monitors = null;
        standing = null;
        if (r != null) {
            r.owned = null;
        }
        return notice;
    }

    private void tellOfDeath() {
        if (Telemetry.isOn() && !isGuest()) {
            Telemetry.exited(pid(), reason);
        }
    }

    /** Called when the body has ended, with all scopes in it. */
    void end(Object why, Object value) {
        Simulated.switchPoint();
        boolean own = false;
        for (int tries = 0;; tries++) {
            try {
                DeathNotice notice;
                synchronized (this) {
                    if (life == DEAD) {
                        return;
                    }
                    if (life == ALIVE) {
                        own = true;
                        leave(why);
                    }
                    notice = die(own ? value : null);
                }
                tellOfDeath();
                notice.announce();
                NoMemory.awaited(tries > 0);
                return;
            } catch (OutOfMemoryError noRoom) {
                NoMemory.await(tries);
            }
        }
    }

    /** Waits at most so many nanoseconds until it has ended; true if it has. */
    boolean awaitEnd(long nanos) throws InterruptedException {
        Latch latch;
        Simulated.switchPoint();
        synchronized (this) {
            if (life == DEAD) {
                return true;
            }
            RareState r = makeRare();
            r.ended = r.ended == null ? new Latch() : r.ended;
            latch = r.ended;
        }
        return Waits.await(latch, WaitReason.PROCESS_END, pid(), nanos);
    }

    // --- views -------------------------------------------------------------------------------------------------------

    /** A snapshot of its state, which needs no co-operation of its thread. */
    public synchronized ProcessInfo info() {
        return new ProcessInfo(pid(), thread(), lifeName(), name(), SmallSet.list(links),
                Monitors.active(Monitors.watchers(this)).map(Ref::maker).toList(),
                Monitors.active(Monitors.watching(this)).map(m -> m.object).toList(),
                Calls.callee(this), mailbox().size(), mailbox().taken(), traps, isSuspended(), leader(), dictionary);
    }

    private String lifeName() {
        return life == ALIVE ? "ALIVE" : life == EXITING ? "EXITING" : "DEAD";
    }

    private Thread thread() {
        return fiber() == null ? null : fiber().get();
    }

    synchronized Zombie zombie(long nanos) {
        return new Zombie(pid(), thread(), reason, nanos);
    }

    @Override
    public String toString() {
        return "process " + pid().text() + " " + pid().label();
    }
}
