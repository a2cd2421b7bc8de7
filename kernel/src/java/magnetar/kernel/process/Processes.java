package magnetar.kernel.process;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import magnetar.kernel.fiber.Cancelled;
import magnetar.kernel.fiber.Cause;
import magnetar.kernel.fiber.Exit;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.FiberBody;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.StackRoom;
import magnetar.kernel.fiber.World;
import magnetar.kernel.report.Failures;
import magnetar.kernel.report.NoMemory;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Wheel;

/** What is done with processes from outside: starting them, sending to them, finding them. */
public final class Processes {
    private static final Set<LocalProcess> GUESTS = ConcurrentHashMap.newKeySet();

    static {
        LongQueues.load();
        NoMemory.install();
    }

    private Processes() {}

    /** How a process is started. All fields may be set until it is. */
    public static final class Options {
        /** What it is called: its name or the source line that started it. */
        public String label;
        /** The source line that starts it, if it is called otherwise. */
        public String site;
        /** The name to register, or null. */
        public Object name;
        /** Gives it a name that the kernel does not know, before it runs, or throws; or null. */
        public Consumer<Pid> naming;
        /** True to link it to the current process before it runs. */
        public boolean link;
        /** True to monitor it from the current process before it runs. */
        public boolean monitor;
        /** True to let it begin with exit signals trapped. */
        public boolean traps;
        /** True to run it on a platform thread. */
        public boolean platform;
        /** The most messages its mailbox holds; 0 for no bound. */
        public int capacity;
        /** What happens to a message that finds no room: BLOCK, DROP_NEW, DROP_OLD or FAIL. */
        public String whenFull = "BLOCK";

        /** Nothing set. */
        public Options() {}

        private Mailbox mailbox() {
            return capacity == 0 ? new OpenMailbox() : new BoundedMailbox(capacity, BoundedMailbox.Policy.valueOf(whenFull));
        }
    }

    /**
     * A process that was started.
     *
     * @param pid its pid
     * @param monitor the reference of the monitor, or null
     */
    public record Started(Pid pid, Ref monitor) {}

    // --- starting ----------------------------------------------------------------------------------------------------

    /** Starts a process that does nothing but this work. */
    public static Pid spawn(String label, Callable<?> work) {
        Fiber starter = Fiber.current();
        starter.enter();
        LocalProcess process = make(starter, label, new OpenMailbox());
        begin(process, prepare(process, new Body(process, work), false));
        return process.pid();
    }

    /** Starts a process with options. */
    public static Started spawn(Options options, Callable<?> work) {
        Fiber starter = Fiber.current();
        starter.enter();
        LocalProcess process = make(starter, options.label, options.mailbox());
        Fiber fiber = prepare(process, body(process, work, options), options.platform);
        Ref monitor;
        try {
            monitor = settle(process, options);
        } catch (Throwable t) {
            process.exit(process.pid(), Words.get().kill, false);
            Fibers.discard(fiber);
            Zombies.remove(process);
            throw t;
        }
        begin(process, fiber);
        return new Started(process.pid(), monitor);
    }

    private static LocalProcess make(Fiber starter, String label, Mailbox mailbox) {
        LocalProcess process = new LocalProcess(new Pid(starter.world().nextSerial(), creation(), label), mailbox);
        if (Simulated.world() != null) {
            simulated(Simulated.world()).add(process);
        }
        LocalProcess parent = LocalProcess.of(starter);
        if (parent != null) {
            process.setLeader(parent.leader());
        }
        return process;
    }

    private static Body body(LocalProcess process, Callable<?> work, Options options) {
        String site = options.site;
        return site == null || site.equals(options.label) ? new Body(process, work) : new Body(process, work) {
            @Override
            String who() {
                return super.who() + ", " + site;
            }
        };
    }

    private static Fiber prepare(LocalProcess process, Body body, boolean platform) {
        Fiber fiber = platform ? Fibers.prepareOnPlatform(process.pid().label(), process, body)
                : Fibers.prepare(process.pid().label(), process, body);
        process.hostedBy(fiber);
        return fiber;
    }

    private static void nameElsewhere(LocalProcess process, Options options) {
        if (options.naming != null) {
            options.naming.accept(process.pid());
        }
    }

    private static Ref settle(LocalProcess process, Options options) {
        nameElsewhere(process, options);
        process.setTraps(options.traps);
        LocalProcess spawner = options.link ? requireCurrent("spawn-link") : options.monitor ? requireCurrent("spawn-monitor") : null;
        Monitor monitor = options.monitor ? spawner.newMonitor(process.pid(), process.pid(), null, Ref.Alias.NONE) : null;
        refuseIf(process.settle(spawner, options.name, options.link, monitor), options.name, process.pid());
        return monitor;
    }

    private static void begin(LocalProcess process, Fiber fiber) {
        try {
            Fibers.begin(fiber);
        } catch (Throwable t) {
            process.exit(process.pid(), Words.get().kill, false);
            Zombies.remove(process);
            throw t;
        }
    }

    /** Gives a process that was at rest a fiber again; it is in one of the two lists all the time. */
    static void activate(LocalProcess process, Callable<?> work, Object context) {
        if (isOfOutside(process)) {
            activateOutside(process, work, context);
            return;
        }
        Fiber fiber = Fibers.prepare(process.pid().label(), process, new Body(process, work));
        fiber.setContext(context);
        Resting.remove(process);
        begin(process, fiber); // if that fails, the process is killed
    }

    /** True of a process of the real world for a fiber of a simulation. */
    private static boolean isOfOutside(LocalProcess process) {
        World simulated = Simulated.world();
        return simulated != null && process.pid().creation() != simulated.creation();
    }

    /** From a thread of the real world: a fiber that is made in a simulation is of that, and would end with it. */
    private static void activateOutside(LocalProcess process, Callable<?> work, Object context) {
        Thread outside = new Thread(null, () -> activate(process, work, context), process.toString(), 0, false);
        outside.setDaemon(true);
        outside.start();
        Simulated.meet(World.REAL, outside);
    }

    /** The fiber's side of a process. */
    private static class Body extends FiberBody implements LocalProcess.Runner {
        private final LocalProcess process;
        private Callable<?> work;

        Body(LocalProcess process, Callable<?> work) {
            this.process = process;
            this.work = work;
        }

        private Callable<?> takeWork() {
            Callable<?> w = work;
            work = null; // so that what it closes over can be collected while it runs
            return w;
        }

        /** How a failure names it. */
        String who() {
            return process.toString();
        }

        @Override
        protected void execute() {
            Throwable thrown = process.run(this, takeWork());
            boolean toldToExit = process.cause() instanceof Cause.Kill || process.cause() != null && Cancelled.isBehind(thrown);
            if (thrown != null && !toldToExit) {
                reports(thrown);
            }
        }

        @Override
        public Fiber runner() {
            return fiber();
        }

        @Override
        public boolean reports(Throwable thrown) {
            Failures.report(who(), Thread.currentThread(), thrown);
            return true;
        }
    }

    /** A guest's thread: what the body throws goes to the caller. */
    private record OnThread(Fiber runner) implements LocalProcess.Runner {
        @Override
        public boolean reports(Throwable thrown) {
            return false;
        }
    }

    /** How the work of a guest ended: one of value and thrown. */
    public record Guest(Pid pid, Throwable thrown) {}

    /** Makes the current thread a process for the extent of the work, which runs here and now. */
    public static Guest host(Options options, Callable<?> work) {
        Fiber fiber = Fiber.current();
        fiber.enter();
        LocalProcess process = make(fiber, options.label, options.mailbox());
        process.hostedBy(fiber);
        process.setTraps(options.traps);
        if (options.name != null) {
            register(options.name, process.pid());
        }
        nameElsewhere(process, options);
        GUESTS.add(process);
        try {
            return new Guest(process.pid(), process.run(new OnThread(fiber), work));
        } finally {
            GUESTS.remove(process);
        }
    }

    /** The current process; a misuse if there is none. */
    public static LocalProcess requireCurrent(String what) {
        Fiber fiber = Fiber.current();
        LocalProcess p = LocalProcess.of(fiber);
        if (p == null) {
            throw Words.language().misuse("no-process", noProcess(what, fiber), Map.of("operation", what));
        }
        return p;
    }

    private static String noProcess(String what, Fiber fiber) {
        LocalProcess owner = ownerOf(fiber);
        String where = Thread.currentThread().getName();
        return owner == null
                ? "`" + what + "` was called outside of a process, on " + (where.isEmpty() ? "an unnamed thread" : "\"" + where + "\"")
                        + ": start one with `spawn`, or make this thread one with `with-process`."
                : "`" + what + "` was called in \"" + where + "\", which " + owner.pid() + " started and which is not that process: "
                        + "take what you need before, as in (let [me (self)] ..), and send to it.";
    }

    /** The process in whose scopes the fiber works, though it is not that process. */
    private static LocalProcess ownerOf(Fiber fiber) {
        return fiber.home() instanceof magnetar.kernel.fiber.Region r && r.fiber() != null && r.fiber() != fiber ? LocalProcess.of(r.fiber()) : null;
    }

    // --- sending -----------------------------------------------------------------------------------------------------

    /** Sends to a pid, an alias or a name; returns the message. */
    public static Object send(Object to, Object message) throws InterruptedException {
        Fiber sender = Fiber.current();
        sender.enter();
        LocalProcess receiver = to instanceof Pid pid ? pid.process() : null;
        if (receiver == null) {
            receiver = find(to, message);
        }
        if (receiver != null && Simulated.loses(to, message)) {
            DeadLetters.add(to, message);
        } else if (receiver != null && mayBeHeard(sender, message, to)) {
            if (!(Simulated.mayDelay() && Ways.delays(sender, receiver, to, message))) {
                receiver.take(sender, to, message);
            }
        }
        return message;
    }

    /** False if the sender is a process that exits, in a shield: what it sends is dropped. Tells the tracer of one that does not. */
    private static boolean mayBeHeard(Fiber sender, Object message, Object to) {
        if (sender.region() == null || !(LocalProcess.of(sender) instanceof LocalProcess p)) {
            return true;
        }
        if (isExiting(p)) {
            DeadLetters.add(to, message);
            return false;
        }
        p.traceSending(message, to);
        return true;
    }

    /** The process at the address; null if it is dead. */
    private static LocalProcess find(Object to, Object message) {
        if (to instanceof Pid pid) {
            LocalProcess p = live(pid);
            if (p == null) {
                DeadLetters.add(pid, message);
            }
            return p;
        }
        if (to instanceof Ref ref) {
            return ref.maker() == null ? null : ref.maker().process();
        }
        LocalProcess p = to == null ? null : Names.find(to);
        if (p == null) {
            throw badAddress(to == null ? "nil" : Words.language().text(to));
        }
        return p;
    }

    private static RuntimeException badAddress(String to) {
        return Words.language().misuse("no-such-name", "Cannot send to " + to + " at " + Caller.line()
                + ": it is no pid and no name that a process is registered under. Send to what `spawn` or `whereis` returned.",
                Map.of("to", to));
    }

    /** Sends what controls a process: no bound applies to it, and if the process is dead it is dropped. */
    public static void control(Pid to, Object message) {
        Fiber sender = Fiber.current();
        sender.enter();
        if (mayBeHeard(sender, message, to) && !(Simulated.mayDelay() && Ways.delays(sender, to, message, () -> signal(to, message)))) {
            signal(to, message);
        }
    }

    /** Sends what no bound applies to, and what nobody waits for: no process there, no error. */
    public static void signal(Object to, Object message) {
        if (to instanceof Ref alias) {
            LocalProcess p = alias.maker() == null ? null : alias.maker().process();
            if (p != null) {
                p.deliverTo(alias, message);
            }
            return;
        }
        LocalProcess p = to instanceof Pid pid ? live(pid) : to instanceof Address address ? processAt(address) : Names.find(to);
        if (p == null || !p.deliverSignal(message)) {
            DeadLetters.add(to, message);
        }
    }

    private static LocalProcess processAt(Address address) {
        Pid found = address.find();
        return found == null ? null : live(found);
    }

    /** Sends an exit signal. */
    public static void exit(Pid to, Object given) {
        Object reason = Words.language().given(given);
        Fiber sender = Fiber.current();
        sender.enter();
        LocalProcess receiver = live(to);
        LocalProcess from = LocalProcess.of(sender);
        if (receiver != null && !isExiting(from)) {
            Pid source = from == null ? null : from.pid();
            if (!(Simulated.mayDelay() && Ways.delays(sender, receiver.pid(), reason, () -> receiver.exit(source, reason, false)))) {
                receiver.exit(source, reason, false);
            }
            sender.check(); // it may have been the sender itself
        }
    }

    /** True of a process that does its clean-up, in a shield: what it sends is dropped, of whatever kind. */
    private static boolean isExiting(LocalProcess p) {
        return p != null && !p.isAlive();
    }

    /** Ends the current process, if nobody catches this. */
    public static Error exit(Object reason) {
        return new Exit(Words.language().given(reason));
    }

    // --- names, pids -------------------------------------------------------------------------------------------------

    /** Registers the name, or throws a misuse. */
    public static void register(Object name, Pid pid) {
        LocalProcess p = live(pid);
        refuseIf(p == null ? "it is not alive" : p.register(name), name, pid);
    }

    private static void refuseIf(String obstacle, Object name, Pid pid) {
        if (obstacle != null) {
            throw Words.language().misuse("cannot-register",
                    "Cannot register " + Words.language().text(name) + " for " + pid + ": " + obstacle + ".", Map.of("name", name, "pid", pid));
        }
    }

    /** Gives the name back; false if nobody has it. */
    public static boolean unregister(Object name) {
        LocalProcess p = Names.find(name);
        return p != null && p.unregister(name);
    }

    /** The process of that name, or null. */
    public static Pid whereis(Object name) {
        LocalProcess p = Names.find(name);
        return p == null ? null : p.pid();
    }

    /** All names, in no order. */
    public static List<Object> names() {
        return Names.all();
    }

    /** The live process of the pid, also of one that was read from text; null if it is dead. */
    static LocalProcess live(Pid pid) {
        LocalProcess p = pid.process();
        return p != null || pid.ended() != null || pid.creation() != creation() || pid.node() != 0 ? p : recognize(pid);
    }

    /** Looks through all processes, once for each pid that was read from text. */
    private static LocalProcess recognize(Pid pid) {
        for (LocalProcess p : all()) {
            if (p.pid().equals(pid)) {
                pid.recognize(p.pid());
                return p;
            }
        }
        pid.bury(new Pid.Ended(Words.get().noproc, null));
        return null;
    }

    /** The process of this pid, or null. */
    public static LocalProcess processOf(Pid pid) {
        return live(pid);
    }

    /** The same, once everything has arrived that the current fiber has sent to it. */
    public static LocalProcess reach(Pid pid) {
        Ways.settle(pid);
        return live(pid);
    }

    /** All processes that are not dead, but for those of simulations, in no order; in a simulation its own, by their pids. */
    public static List<LocalProcess> all() {
        World simulated = Simulated.world();
        Set<LocalProcess> all = new LinkedHashSet<>(); // one that goes to rest or comes back meanwhile may be met twice
        if (simulated != null) {
            addLive(simulated(simulated), all);
            return all.stream().sorted(Comparator.comparing(LocalProcess::pid)).toList();
        }
        addLive(GUESTS, all);
        for (int look = 0; look < 2; look++) { // twice both: one is in either list at each instant, but may go to the other between two looks
            addLive(Resting.all(), all);
            Fibers.homes(home -> {
                if (home instanceof LocalProcess p && p.pid().process() == p) {
                    all.add(p);
                }
            });
        }
        all.removeIf(p -> p.pid().creation() != World.REAL.creation());
        return List.copyOf(all);
    }

    /** The processes of this simulation that are at rest, by their pids. */
    public static List<LocalProcess> atRest() {
        return simulated(Simulated.world()).stream().filter(p -> p.pid().process() == p && p.atRest() != null)
                .sorted(Comparator.comparing(LocalProcess::pid)).toList();
    }

    /** All that a simulation has started. */
    private static Set<LocalProcess> simulated(World world) {
        return world.room(LocalProcess.class, ConcurrentHashMap::newKeySet);
    }

    private static void addLive(Iterable<LocalProcess> some, Set<LocalProcess> all) {
        for (LocalProcess p : some) {
            if (p.pid().process() == p) {
                all.add(p);
            }
        }
    }

    /** Waits until the process has ended, for so many nanoseconds: how it ended, or null. */
    public static Pid.Ended join(Pid pid, long nanos) throws InterruptedException {
        LocalProcess p = live(pid);
        if (p != null && LocalProcess.current() == p) {
            throw Words.language().misuse("join-self", "The process " + pid + " waits for its own end, which would never come.", Map.of("pid", pid));
        }
        if (p != null && !p.awaitEnd(nanos)) {
            return null;
        }
        Pid own = p == null ? pid : p.pid();
        return own.ended() == null ? new Pid.Ended(Words.get().noproc, null) : own.ended();
    }

    // --- timers ------------------------------------------------------------------------------------------------------

    /** The reference of a timer. */
    private static final class TimerRef extends Ref {
        private final SendTimer timer;

        TimerRef(long id, SendTimer timer) {
            super(id, creation(), null, 0);
            this.timer = timer;
        }
    }

    /** Sends the message after so many nanoseconds; with {@code tagged} inside a message that holds the reference. */
    public static Ref sendAfter(long nanos, Object to, Object message, boolean tagged) {
        Fiber fiber = Fiber.current();
        fiber.enter();
        SendTimer timer = new SendTimer(to, Durations.deadline(fiber.world().nanoTime(), nanos));
        TimerRef ref = new TimerRef(nextRef(fiber), timer);
        timer.carry(tagged ? Words.language().timeout(ref, message) : message);
        if (!isExiting(LocalProcess.of(fiber))) {
            Wheel.of(fiber.world()).add(timer);
        }
        return ref;
    }

    /** Stops a timer; the nanoseconds that were left, or -1 if it has sent or was stopped. */
    public static long cancelTimer(Ref ref) {
        StackRoom.touch();
        Fiber fiber = Fiber.current();
        return ref instanceof TimerRef t && Wheel.of(fiber.world()).cancel(t.timer) ? left(fiber, t.timer) : -1;
    }

    /** The nanoseconds until the timer sends, or -1 if it has, or was stopped. */
    public static long readTimer(Ref ref) {
        StackRoom.touch();
        Fiber fiber = Fiber.current();
        return ref instanceof TimerRef t && Wheel.of(fiber.world()).isWaiting(t.timer) ? left(fiber, t.timer) : -1;
    }

    private static long left(Fiber fiber, SendTimer timer) {
        return Math.max(0, timer.dueNanos() - fiber.world().nanoTime());
    }

    // --- references --------------------------------------------------------------------------------------------------

    static long nextRef(Fiber fiber) {
        return fiber.nextId() - Long.MIN_VALUE;
    }

    /** A reference made outside of a process. */
    public static Ref makeRef() {
        Fiber fiber = Fiber.current();
        LocalProcess p = LocalProcess.of(fiber);
        return p == null ? new Ref(nextRef(fiber), creation(), null, 0) : p.makeRef();
    }

    static long creation() {
        return Fiber.current().world().creation();
    }

    /** The mark to begin a receive at that asks for one of these values: behind all that is older than the youngest reference among them. */
    public static long mark(LocalProcess process, Object... values) {
        long youngest = 0;
        for (Object value : values) {
            if (value instanceof Ref r && r.maker() == process.pid()) {
                youngest = Math.max(youngest, r.mark());
            }
        }
        return youngest;
    }
}
