package magnetar.kernel.process;

import java.util.List;
import java.util.Map;
import magnetar.kernel.fiber.Cause;
import magnetar.kernel.fiber.Exit;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Region;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Gate;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.sched.Fault;
import magnetar.kernel.time.Waits;

/**
 * A process as Erlang means it: who it is, and its life. It is a region of the fiber that runs it, so an exit signal dooms what that fiber does, wherever it
 * waits, and nothing beyond.
 *
 * <p>Others work on the same process under its monitor, each with state of its own: {@link Receiver} takes its messages and {@link Delivery} brings them,
 * {@link Links} and {@link Monitors} say whom its death concerns, {@link Aliases} and {@link Calls} bring answers, {@link Hosting} runs it.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A signal acts on arrival, by the thread that sends it: so the signals of one sender act in the order in which they were sent. Trap
 *       flag, links, monitors and life change under the monitor of their process only.
 *   <li>Life goes from ALIVE to EXITING to DEAD, or at once to DEAD. From EXITING on the name is free, the mailbox closed, and exit signals
 *       other than a kill are ignored; the reason does not change any more. The process is DEAD when its body has ended with all scopes in it, or at
 *       once when it was killed.
 *   <li>Name, list of links and of monitors are empty before anybody learns of the death, and what it owned has been told.
 *   <li>No interrupt is sent to the thread once DEAD was written by the thread itself.
 *   <li>Memory may end while it dies. So what a step needs is allocated before the step changes anything, and a step that fails is done again, when the others
 *       have given memory back. One that dies because memory has ended drops its own mailbox before all else.
 * </ol>
 *
 * <p>Differences from Erlang: signals are synchronous, which its rules allow; a process that ends by a signal runs its {@code finally} blocks
 * first (for them it is EXITING: what it sends is dropped), and one that was killed may run on as a zombie that nobody hears.
 *
 * <p>Lock order: monitors of processes by pid, then a mailbox. Nobody is woken under them, except by an interrupt, and except those that wait for a mailbox that
 * closes: its owner, senders, and an owner that waits for an answer.
 */
public final class LocalProcess extends Region {
    private enum Life {
        ALIVE,
        EXITING,
        DEAD
    }

    private final Pid pid;
    private final Receiver receiver;

    // Written under the monitor, read by any thread.
    private volatile Life life = Life.ALIVE;

    // Guarded by the monitor.
    private Bag<Owned> owned;
    private boolean traps;
    private Object reason;
    private Object name;
    private Gate gone;

    // Guarded by the monitor; each is the affair of the class that it is of, and null while there is nothing in it.
    Links links;
    Monitors monitors;
    Calls.Standing standing;

    // Only written by the owner, read by any thread.
    private volatile Object dictionary;
    private volatile Calls.Server server;

    // Set by the starter, then by any thread.
    private volatile Pid leader;

    // Guarded by the part of the list of those at rest that it is in.
    LocalProcess restsBefore;
    LocalProcess restsAfter;
    boolean listedAtRest;

    LocalProcess(Pid pid, Mailbox mailbox) {
        this.pid = pid;
        this.receiver = new Receiver(this, mailbox);
        pid.bear(this);
    }

    // --- who it is ---------------------------------------------------------------------------------------------------

    /** The process that the current thread is, or null: a fork or a go block that a process has started is none. */
    public static LocalProcess current() {
        return of(Fiber.current());
    }

    /** The process that the current thread is; a misuse of the operation if it is none. */
    public static LocalProcess require(String operation) {
        Fiber fiber = Fiber.current();
        LocalProcess p = of(fiber);
        if (p == null) {
            throw Words.language().misuse("no-process", noProcess(operation, fiber), Map.of("operation", operation));
        }
        return p;
    }

    static LocalProcess of(Fiber fiber) {
        for (Region r = fiber.region(); r != null; r = r.outer()) {
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

    /** The process in whose scopes the fiber works, though it is not that process. */
    private static LocalProcess ownerOf(Fiber fiber) {
        return fiber.home() instanceof Region r && r.fiber() != null && r.fiber() != fiber ? of(r.fiber()) : null;
    }

    /** Its pid. */
    public Pid pid() {
        return pid;
    }

    /** What takes its messages. */
    public Receiver receiver() {
        return receiver;
    }

    Mailbox mailbox() {
        return receiver.mailbox();
    }

    boolean isAlive() {
        return life == Life.ALIVE;
    }

    boolean isDead() {
        return life == Life.DEAD;
    }

    Object reason() {
        return reason;
    }

    /** Its registered name, or null. */
    public synchronized Object name() {
        return name;
    }

    /** Whether exit signals become messages. */
    public synchronized boolean trapsExits() {
        return traps;
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

    /** What the face keeps for its owner. */
    public Object dictionary() {
        return dictionary;
    }

    /** Replaces what the face keeps; called by the owner. */
    public void setDictionary(Object next) {
        dictionary = next;
    }

    /** What it is as a server, or null if it takes no requests. */
    public Calls.Server server() {
        return server;
    }

    /** Makes it a server; called by the owner. */
    public void serve(Calls.Server as) {
        server = as;
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

    // --- its name, its spawner ---------------------------------------------------------------------------------------

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

    /**
     * Gives a process that was started, before it runs, its name, its link and its monitor: all at one instant, so that whoever finds it by its
     * name finds it with them, and its end is told with its true reason however soon it comes.
     *
     * @param spawner the process that has started it, if it is to be linked to or monitored by that; else null
     * @return what stands in the way of the name, or null
     */
    String settle(LocalProcess spawner, Object wanted, boolean linked, Monitor m) {
        Birth birth = new Birth(spawner != null, wanted, linked, m);
        String obstacle = Links.underBoth(this, spawner == null ? this : spawner, birth);
        if (birth.dead && !Fault.KILL_BEFORE_START_SENDS_NO_NOTICE.isPlanted()) { // another process has found it in the list of all
            new DeathNotice(pid, reason, List.of(), linked ? List.of(spawner.pid) : List.of(), m == null ? List.of() : List.of(m), List.of(), null).announce();
        }
        return obstacle;
    }

    private static final class Birth implements Links.Step<String> {
        private final boolean spawned;
        private final Object wanted;
        private final boolean linked;
        private final Monitor m;
        private boolean dead;

        Birth(boolean spawned, Object wanted, boolean linked, Monitor m) {
            this.spawned = spawned;
            this.wanted = wanted;
            this.linked = linked;
            this.m = m;
        }

        @Override
        public String run(LocalProcess child, LocalProcess parent) {
            if (spawned && parent.isDead()) {
                throw new Exit(Words.get().killed); // a child without its link may not live
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

    // There may be a million of them.
    synchronized void dropEmptyLists() {
        links = Bag.slim(links);
        owned = Bag.slim(owned);
        Monitors.slim(this);
    }

    // --- its fiber ---------------------------------------------------------------------------------------------------

    /** What the fiber that will run it is, so that it can be told to exit before it runs. */
    void hostedBy(Fiber soon) {
        expect(soon);
    }

    synchronized void enter(Fiber host) {
        host.enterRegion(this);
    }

    synchronized void vacate(Fiber host) {
        host.vacateRegion();
    }

    // --- exit --------------------------------------------------------------------------------------------------------

    /** An exit signal arrives. */
    void exit(Pid from, Object why, boolean overLink) {
        Simulated.note("exit signal", pid, why);
        boolean trapped = Fault.TRAPPING_IS_CHECKED_BEFORE_LOCK.isPlanted() && traps;
        Simulated.switchPoint();
        Waiter answer = null;
        DeathNotice notice = null;
        synchronized (this) {
            if (life == Life.DEAD || overLink && !Bag.contains(links, from)) {
                return;
            }
            Words words = Words.get();
            boolean alive = life == Life.ALIVE;
            boolean kills = !overLink && words.kill.equals(why);
            Node told = alive && (traps || trapped) && !kills ? new Node(words.language.exit(from, why)) : null;
            boolean leaves = alive && !traps && !kills && (!words.normal.equals(why) || !overLink && from == pid);
            Cause cause = leaves ? new Cause.Leave(why) : null;
            if (overLink) {
                Bag.remove(links, from);
            }
            if (kills) {
                notice = kill(words.killed);
            } else if (told != null) {
                answer = mailbox().pushSignal(told);
            } else if (leaves) {
                leave(why);
                doomRegion(cause);
                if (Fault.PROCESS_IS_DEAD_BEFORE_CLEAN_UP.isPlanted()) {
                    notice = die(null);
                }
            }
        }
        Delivery.wake(this, answer);
        if (notice != null) {
            notice.announce();
        }
    }

    /** A link to a process that was dead already: an exit signal, which becomes a message if it traps exits; else false, and nothing is done. */
    boolean trapsNoproc(Pid dead) {
        Waiter answer;
        Simulated.switchPoint();
        synchronized (this) {
            if (!traps) {
                return false;
            }
            answer = mailbox().pushSignal(new Node(Words.language().exit(dead, Words.get().noproc)));
        }
        Delivery.wake(this, answer);
        return true;
    }

    /** Under the monitor: not alive for others any more. */
    private void leave(Object why) {
        life = Life.EXITING;
        reason = why;
        if (name != null && !Fault.NAME_OUTLIVES_PROCESS.isPlanted()) {
            Names.release(name, this);
            name = null;
        }
        mailbox().close();
        Calls.exits(this);
    }

    /** Under the monitor: dead at once for everybody else, whatever its thread does. */
    private DeathNotice kill(Object why) {
        Cause cause = new Cause.Kill(life == Life.ALIVE ? why : reason);
        Zombies.add(this);
        if (life == Life.ALIVE) {
            leave(why);
        }
        doomRegion(cause);
        return die(null);
    }

    /** Under the monitor. */
    private DeathNotice die(Object value) {
        Pid.Ended ended = new Pid.Ended(reason, value);
        DeathNotice notice = new DeathNotice(pid, reason, Bag.list(owned), Bag.list(links), Monitors.watchers(this), Monitors.watching(this), gone);
        life = Life.DEAD;
        pid.bury(ended);
        links = null;
        monitors = null;
        standing = null;
        owned = null;
        return notice;
    }

    /** The body has ended, with everything in it. */
    void end(Object why, Object value) {
        Simulated.switchPoint();
        boolean own = false;
        for (;;) {
            try {
                DeathNotice notice;
                synchronized (this) {
                    if (life == Life.DEAD) {
                        return;
                    }
                    if (life == Life.ALIVE) {
                        own = true;
                        leave(why);
                    }
                    notice = die(own ? value : null);
                }
                notice.announce();
                return;
            } catch (OutOfMemoryError noRoom) {
                DeathNotice.letOthersRun();
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

    // --- views -------------------------------------------------------------------------------------------------------

    /** What is known of it at one instant, without its co-operation. */
    public synchronized ProcessInfo info() {
        return new ProcessInfo(pid, thread(), life.name(), name, Bag.list(links),
                Monitors.active(Monitors.watchers(this)).map(Ref::maker).toList(),
                Monitors.active(Monitors.watching(this)).map(m -> m.object).toList(),
                mailbox().size(), traps, receiver.isSuspended(), leader(), dictionary);
    }

    private Thread thread() {
        return fiber() == null ? null : fiber().get();
    }

    synchronized Zombie zombie(long nanos) {
        return new Zombie(pid, thread(), reason, nanos);
    }

    @Override
    public String toString() {
        return "process " + pid.text() + " " + pid.label();
    }
}
