package magnetar.kernel.sim;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.FiberBody;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Parked;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.ProcessTable;
import magnetar.kernel.sim.Choice.Place;
import magnetar.kernel.time.Timer;
import magnetar.kernel.time.Wheel;

/**
 * One run of a program in an environment of its own: on one thread, in virtual time, by a strategy. The same
 * program, seed and strategy give the same run.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Fibers run only on the carrier, one at a time, from one choice point to the next: a switch point, a
 *       park or an end.
 *   <li>A fiber is in {@code runnable} exactly while it has a task and does not run. The order is the order
 *       of becoming runnable.
 *   <li>What the strategy sees does not depend on real time, on identity hashes, or on other threads of the
 *       JVM. If another thread affects a fiber, the run ends with a problem. One case is allowed: it leaves a
 *       monitor of the kernel that both environments share.
 *   <li>Time passes only while no fiber can run, by a small step while one fiber runs alone for long, or
 *       where a fault makes it pass.
 *   <li>A fiber of a node that has crashed is in {@code runnable} no more, whatever wakes it.
 * </ol>
 *
 * <p>Sources: the simulation of FoundationDB (one thread, virtual time, faults from the seed), Shuttle and
 * Coyote (random and priority-based schedulers). Difference: the fibers are the JDK's virtual threads on a
 * scheduler of ours. So plain code with plain stacks is simulated, and no code is rewritten. Rejected:
 * bytecode instrumentation to switch at each memory access, as Fray and Lincheck do.
 */
public final class Simulation {
    private static final int TIMERS = 0;
    private static final int BODY = 2;
    private static final long LOOK_NANOS = 1_000_000;
    private static final int ASIDE_STEPS = 100_000;
    private static final long ALONE_NANOS = 1_000_000;

    private static int running; // guarded by the class

    final Config config;
    private final SimEnvironment environment;
    private final Strategy strategy;
    private final EventLog log;
    private final FailureReport report = new FailureReport(this);

    // Only accessed on the carrier, or by the fiber that it runs.
    long now;
    private final List<SimEnvironment> environments = new ArrayList<>(); // the body's, then the running nodes
    private final List<SimNode> started = new ArrayList<>(); // all nodes, also those that have crashed
    private final List<SimFiber> fibers = new ArrayList<>();
    private final List<SimFiber> runnable = new ArrayList<>();
    private final List<Choice> choices = new ArrayList<>();
    private final List<Run.Failure> failures = new ArrayList<>();
    private List<Run.Waiting> left = List.of();
    private SimFiber last;
    private SimFiber next;
    private boolean leaves; // the running fiber was told to let others run
    private final Stalled stalled = new Stalled(runnable);
    boolean ending;
    private Object value;
    private Throwable error;

    // Written on the carrier, read by the thread that waits for the run.
    private volatile SimFiber current;
    private volatile long steps;
    private volatile long turns;
    private volatile Run run;

    private Thread carrier;

    private Simulation(Config config, Strategy strategy) {
        this.config = config;
        this.strategy = strategy;
        this.environment = new SimEnvironment(this, config.seed);
        environments.add(environment);
        this.log = new EventLog(config, fibers, this::prefix);
    }

    /** True if {@code java.lang} is open, which a simulation needs. */
    public static boolean isPossible() {
        return SimEnvironment.isPossible();
    }

    /** True in a fiber of a simulation. */
    public static boolean isInside() {
        return Simulated.environment() instanceof SimEnvironment;
    }

    /** Runs the body to its end, as a fiber of a new environment. */
    public static Run run(Config config, Strategy strategy, Callable<?> body) throws InterruptedException {
        Simulation s = new Simulation(config, strategy);
        s.carrier = new Thread(null, () -> s.carry(body), "magnetar-simulation", 0, false);
        s.carrier.setDaemon(true);
        Fibers.adopt(s.carrier, s.environment);
        count(1);
        s.carrier.start();
        return s.await();
    }

    /**
     * Does many runs without turning the hooks of the kernel off in between, because that discards
     * JIT-compiled code.
     */
    public static <T> T together(Callable<T> runs) throws Exception {
        count(1);
        try {
            return runs.call();
        } finally {
            count(-1);
        }
    }

    private static synchronized void count(int change) {
        if (running == 0 || running + change == 0) {
            Simulated.simulate(change > 0);
        }
        running += change;
    }

    /** Waits for the result. If the run reaches no switch point for long, reports where it is. */
    private Run await() throws InterruptedException {
        long seen = -1;
        while (run == null) {
            try {
                carrier.join(seen == -1 ? 1 : config.patienceMillis);
            } catch (InterruptedException e) {
                report.stop("INTERRUPTED", "The thread that waited for the simulation was interrupted.");
                throw e;
            }
            if (run == null && seen == turns + steps && seen != -1) {
                return result(report.stuck(current));
            }
            seen = turns + steps;
        }
        return run;
    }

    private Run result(Run.Problem what) {
        return new Run(value, error, what, List.copyOf(choices), log.events(), List.copyOf(failures), left, log.fullest(), steps, now);
    }

    // --- the carrier ---------------------------------------------------------------------------------------------------

    private void carry(Callable<?> body) {
        try {
            begin(body);
            loop();
            Run.Problem found = report.problem();
            left = found == null ? waiting() : List.of();
            Run result = result(found);
            ending = true;
            new TearDown(this).run();
            run = result;
        } catch (Throwable t) {
            error = t;
            run = result(new Run.Problem("BROKEN", "The simulator failed: " + t, List.of()));
        } finally {
            count(-1);
        }
    }

    private void begin(Callable<?> body) {
        startOwn(environment);
        runAll();
        Fibers.start("body", Fibers.Hold.STRONG, () -> doBody(body));
    }

    /** Starts the simulator's own fibers in this environment. */
    private void startOwn(SimEnvironment in) {
        in.timers = startOwn(in, "timers", () -> expireTimers(in));
        in.injector = startOwn(in, "faults", in.faults);
    }

    SimFiber startOwn(SimEnvironment in, String name, Runnable work) {
        Fiber fiber = Fibers.prepare(in, name, null, new FiberBody() {
            @Override
            protected void execute() {
                work.run();
            }
        });
        SimFiber own = fibers.getLast();
        own.isOfProgram = false;
        Fibers.begin(fiber);
        return own;
    }

    private void doBody(Callable<?> body) {
        try {
            value = body.call();
        } catch (Throwable t) {
            error = t;
        }
    }

    private void loop() {
        while (!report.isKnown()) {
            SimFiber f = choose();
            if (f != null) {
                step(f);
            } else if (fibers.get(BODY).ended && hasDelivered()) {
                return;
            } else if (!passTime() && !isForeignerNear()) {
                report.stop("DEADLOCK", "Deadlock: nothing can run, and nothing is due.");
            }
        }
    }

    private boolean hasDelivered() {
        for (SimEnvironment e : environments) {
            if (!e.faults.hasDelivered()) {
                return false;
            }
        }
        return true;
    }

    /** Waits a little, so that another thread that could run a fiber is reported instead of a deadlock. */
    private boolean isForeignerNear() {
        for (int n = 0; n < config.graceMillis && !report.isKnown(); n++) {
            LockSupport.parkNanos(LOOK_NANOS);
            if (stalled.woken() != null) {
                report.notified(stalled.woken());
            }
        }
        return report.isKnown();
    }

    boolean isAnyRunnable() {
        return !runnable.isEmpty();
    }

    /** Runs all runnable fibers in the default order. The log and the strategy do not see it. */
    void runAll() {
        for (int n = 0; n < ASIDE_STEPS && !runnable.isEmpty(); n++) {
            step(runnable.removeFirst());
        }
    }

    private void step(SimFiber f) {
        Runnable task = f.task;
        f.task = null;
        if (f != last) {
            log(f, "runs", null, null);
        }
        last = f;
        current = f;
        turns++;
        leaves = false;
        task.run();
        current = null;
        if (f.task == null) {
            look(f);
        } else if (Monitors.isUnparked(f.thread) && !ending) {
            report.wokenAtOnce(f);
        } else if (!leaves && !ending && Monitors.hasYielded(f.thread)) {
            hasYielded(f);
        }
        if (!report.isKnown()) {
            stalled.awaitUnblocked();
        }
    }

    /**
     * Called when the program has called Thread.yield: it has nothing to do before others have run or time
     * has passed.
     */
    private void hasYielded(SimFiber f) {
        strategy.yields(f);
        if (!isEndless(f) && runnable.size() == 1) {
            passTime();
        }
    }

    /** Finds out why the fiber cannot run. */
    private void look(SimFiber f) {
        switch (f.thread.getState()) {
            case TERMINATED -> {
                f.ended = true;
                log(f, "ends", null, null);
            }
            case BLOCKED -> awaitMonitor(f);
            case TIMED_WAITING -> report.timedWait(f);
            case WAITING -> {
                if (LockSupport.getBlocker(f.thread) == null) {
                    stalled.add(f); // Object.wait: a notify lets it wait for the monitor
                }
            }
            default -> {}
        }
    }

    private void awaitMonitor(SimFiber f) {
        if (!Monitors.isShared(f.thread)) {
            log(f, "waits for a monitor", f.line(), null);
            stalled.add(f);
        } else if (stalled.comesSoon(f)) {
            next = f;
        } else {
            report.monitor(f);
        }
    }

    private SimFiber choose() {
        SimFiber f = next;
        next = null;
        if (f == null || !runnable.contains(f)) {
            f = runnable.size() < 2 ? null : preferred();
        }
        f = f == null && !runnable.isEmpty() ? runnable.getFirst() : f;
        runnable.remove(f);
        return f;
    }

    private SimFiber preferred() {
        if (ending) {
            return null;
        }
        ChoicePoint p = ChoicePoint.at(last, Place.REST, runnable);
        Choice c = strategy.decide(p);
        if (c == null) {
            return null;
        }
        choices.add(c);
        return p.runnable(c.target());
    }

    /** Lets time pass up to the next timer; false without a timer. */
    boolean passTime() {
        long due = nextNanos();
        if (due == Long.MAX_VALUE) {
            return false;
        }
        now = Math.max(now, due) + delay();
        wakeTimers();
        return true;
    }

    /** When a timer of any environment is due next, or {@link Long#MAX_VALUE}. */
    private long nextNanos() {
        long first = Long.MAX_VALUE;
        for (SimEnvironment e : environments) {
            first = Math.min(first, e.nextNanos());
        }
        return first;
    }

    private void wakeTimers() {
        log(fibers.get(TIMERS), "time passes", null, null);
        for (SimEnvironment e : environments) {
            if (e.nextNanos() <= now) {
                LockSupport.unpark(e.timers.thread);
            }
        }
    }

    /**
     * Called when a fiber has run a thousand operations alone. Lets a little time pass, but not all up to the
     * next timer.
     */
    private void passALittle() {
        now += ALONE_NANOS;
        if (nextNanos() <= now) {
            wakeTimers();
        }
    }

    private long delay() {
        Choice c = fault(Choice.What.DELAY, Place.IDLE);
        return c == null ? 0 : c.target() * LOOK_NANOS;
    }

    // --- the simulator's own fibers
    // ----------------------------------------------------------------------------------

    /** Does a work of the simulator's own, which does not block, at this instant of its clock. */
    void at(long due, Runnable work) {
        Wheel.of(environment).add(new Timer(due) {
            @Override
            protected void expire() {
                work.run();
            }
        });
    }

    private void expireTimers(SimEnvironment of) {
        while (!ending) {
            LockSupport.park(this);
            Wheel.of(of).expireDue();
        }
    }

    /** True if this fiber runs now. */
    boolean isRunning(SimFiber f) {
        return f != null && f == current;
    }

    // --- called by fibers --------------------------------------------------------------------------------------------

    SimFiber newFiber(SimEnvironment in, String name) {
        SimFiber f = new SimFiber(in, fibers.size(), name);
        fibers.add(f);
        log("starts", f, null);
        return f;
    }

    void submit(SimFiber f, Runnable task) {
        if (isHere()) {
            if (!stalled.takes(f, task)) {
                makeRunnable(f, task);
            }
            return;
        }
        if (!ending && !Monitors.isUnblocker(Thread.currentThread())) {
            report.foreign(f);
        }
        stalled.submit(f, task);
        LockSupport.unpark(carrier);
    }

    /** Lets the fiber of a crashed node run again, which could run when it crashed. */
    void resume(SimFiber f) {
        if (f.task != null) {
            runnable.add(f);
        }
    }

    private void makeRunnable(SimFiber f, Runnable task) {
        if (f.task == null && f.mayRun()) { // otherwise its stack was requested, and the JVM submits it again
            runnable.add(f);
        }
        f.task = task;
    }

    boolean isHere() {
        Thread t = Thread.currentThread();
        SimFiber f = current;
        return t == carrier || f != null && t == f.thread;
    }

    /**
     * Ends the simulation of the current fiber, which did something that cannot be simulated. Returns a
     * sentence about it, with the line.
     */
    public static String refuse(String what) {
        return ((SimEnvironment) Simulated.environment()).simulation.report.refuse(what);
    }

    void recordForeignWake(SimEnvironment waker, Thread woken) {
        if (!isHere() || ending) {
            return;
        }
        for (SimFiber f : fibers) {
            if (f.thread == woken) {
                report.shared(current, f + " at " + f.line());
                return;
            }
        }
        report.wokeForeign(current, woken);
    }

    void recordShared(Object process) {
        if (isHere() && !ending) {
            report.shared(current, process.toString());
        }
    }

    void wakes(Thread thread) {
        if (!isHere()) {
            for (SimFiber f : List.copyOf(fibers)) {
                if (f.thread == thread) {
                    report.foreign(f);
                }
            }
            return;
        }
        if (config.logs && !ending) {
            for (SimFiber f : fibers) {
                if (f.thread == thread) {
                    Object result = LockSupport.getBlocker(thread) instanceof Parked p ? p.result() : null;
                    log("wakes", f, result);
                }
            }
        }
    }

    void reachSwitchPoint() {
        SimFiber me = current;
        if (me == null || Thread.currentThread() != me.thread || ending || report.isKnown()) {
            return;
        }
        if (isEndless(me)) {
            leave(null);
            return;
        }
        ChoicePoint p = switchPoint(me);
        if (!p.isEmpty()) {
            decide(p);
        }
    }

    private ChoicePoint switchPoint(SimFiber me) {
        boolean free = !isInjector(me) && isFree();
        boolean hurries = free && config.may(Choice.What.HURRY) && !runnable.isEmpty() && nextNanos() != Long.MAX_VALUE;
        boolean kills = free && config.may(Choice.What.KILL) && !isDelivering();
        List<SimFiber> victims = kills ? FaultInjector.victims(this) : List.of();
        List<LocalProcess> passivated = kills ? me.environment.faults.passivated() : List.of();
        List<SimNode> nodes = free && config.may(Choice.What.CRASH) ? nodes().stream().filter(n -> config.victims.test(n.name)).toList() : List.of();
        return ChoicePoint.at(me, Place.SWITCH, runnable, victims, passivated, nodes, hurries);
    }

    private static boolean isInjector(SimFiber f) {
        return f == f.environment.injector;
    }

    private boolean isFree() {
        for (SimEnvironment e : environments) {
            if (!e.faults.isFree()) {
                return false;
            }
        }
        return true;
    }

    private boolean isDelivering() {
        for (SimEnvironment e : environments) {
            if (e.faults.isDelivering()) {
                return true;
            }
        }
        return false;
    }

    private boolean isEndless(SimFiber me) {
        boolean endless = ++steps > config.maxSteps && !ending && !report.isKnown();
        if (endless) {
            report.endless(me);
        }
        return endless;
    }

    private void decide(ChoicePoint p) {
        Choice c = strategy.decide(p);
        if (c == null) {
            return;
        }
        choices.add(c);
        switch (c.what()) {
            case PREEMPT -> preempt(p.runnable(c.target()));
            case HURRY -> passTime();
            case KILL -> fibers.get(c.target()).environment.faults.strike(fibers.get(c.target()).process());
            case KILL_PASSIVATED -> p.fiber().environment.faults.strike(p.passivated(c.target()));
            case CRASH -> crash(p.node(c.target()));
            default -> throw new AssertionError(c);
        }
    }

    private void preempt(SimFiber other) {
        log("is preempted by", other, null);
        leave(other);
    }

    /** Lets the other fiber run, or for null the one that the strategy chooses. */
    void leave(SimFiber other) {
        next = other;
        leaves = true;
        long before = turns;
        Thread.yield();
        if (turns == before) {
            next = null; // pinned by a native frame, as in a class initializer
        }
    }

    boolean letOthersRun() {
        SimFiber me = current;
        if (me == null || Thread.currentThread() != me.thread) {
            return false;
        }
        strategy.yields(me);
        if (!isEndless(me) && runnable.isEmpty() && !report.isKnown()) {
            passALittle();
        }
        leave(runnable.isEmpty() ? null : runnable.getFirst());
        return true;
    }

    /**
     * The fault that the strategy wants at this choice point of the fiber that runs, or ran last; or null.
     */
    Choice fault(Choice.What what, Place place) {
        if (ending || !config.may(what)) {
            return null;
        }
        Choice c = strategy.decide(ChoicePoint.at(last, place, List.of()));
        if (c != null) {
            choices.add(c);
        }
        return c;
    }

    List<SimFiber> fibers() {
        return fibers;
    }

    boolean keepsFailure(String site, Throwable failed) {
        if (!isHere()) {
            return false;
        }
        if (!ending) {
            failures.add(new Run.Failure(site, failed));
            log("fails", site, failed);
        }
        return true;
    }

    // --- nodes -------------------------------------------------------------------------------------------------------

    /** All nodes that were started, also those that have crashed. */
    List<SimNode> started() {
        return started;
    }

    /** The nodes that run, in the order of their starts. */
    List<SimNode> nodes() {
        List<SimNode> nodes = new ArrayList<>();
        for (SimEnvironment e : environments) {
            if (e instanceof SimNode n) {
                nodes.add(n);
            }
        }
        return nodes;
    }

    String prefix(long creation) {
        for (SimNode n : started) {
            if (n.creation() == creation) {
                return n.prefix();
            }
        }
        return "";
    }

    /** The running node of this name, or null. */
    SimNode node(String name) {
        for (SimNode n : nodes()) {
            if (n.name.equals(name)) {
                return n;
            }
        }
        return null;
    }

    /** The last node that was started with this name, or null. */
    SimNode lastOf(String name) {
        for (SimNode n : started.reversed()) {
            if (n.name.equals(name)) {
                return n;
            }
        }
        return null;
    }

    void restart(String name) {
        SimNode before = lastOf(name);
        if (!before.isGone()) {
            crash(before);
        }
        start(name, before.offset, before.drift);
    }

    SimNode start(String name, long offset, long drift) {
        SimNode node = new SimNode(this, name, started.size() + 1, offset, drift);
        started.add(node);
        log("boots", node, node.number);
        environments.add(node);
        startOwn(node);
        return node;
    }

    NodeCall begin(SimNode node, Callable<?> function) {
        NodeCall call = new NodeCall(node, function);
        node.calls.add(call);
        Fibers.begin(Fibers.prepare(node, "call", null, call));
        return call;
    }

    /** Crashes the node. Does not return on a fiber of that node. */
    void crash(SimNode node) {
        log("crashes", node, null);
        node.vanish();
        environments.remove(node);
        runnable.removeIf(SimFiber::isGone);
        stalled.removeGone();
        ProcessTable.forget(node);
        List.copyOf(node.onCrash).forEach(Runnable::run);
        List.copyOf(node.calls).forEach(NodeCall::crash);
        while (current != null && !current.mayRun()) {
            leave(null); // the last time it runs
        }
    }

    // --- the log -----------------------------------------------------------------------------------------------------

    void note(String what, Object on, Object with) {
        if (on instanceof Pid pid && isHere()) {
            log.look(pid);
        }
        log(what, on, with);
    }

    void log(String what, Object on, Object with) {
        log(current == null ? last : current, what, on, with);
    }

    private void log(SimFiber f, String what, Object on, Object with) {
        if (config.logs && !ending && isHere()) {
            log.write(steps, now, f, what, on, with);
        }
    }

    /** The fibers that have not ended. */
    List<Run.Waiting> waiting() {
        List<Run.Waiting> all = new ArrayList<>();
        for (SimFiber f : fibers) {
            if (f.isOfProgram && !f.isGone() && !f.ended && f.thread.getState() != Thread.State.NEW) {
                all.add(f.waiting(f.task == null && f != current, log.names()));
            }
        }
        return all;
    }
}
