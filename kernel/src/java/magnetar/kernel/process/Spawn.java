package magnetar.kernel.process;

import java.util.concurrent.Callable;
import java.util.function.Consumer;
import magnetar.kernel.fiber.Cancelled;
import magnetar.kernel.fiber.Cause;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.report.Failures;
import magnetar.kernel.report.NoMemory;
import magnetar.kernel.report.Telemetry;

/**
 * Starts processes: on a new fiber, for a while on the thread of the caller, and again when they were
 * passivated.
 *
 * <p>Invariant: a process has its name, link and monitor before its first instruction. If that fails, it does
 * not run, and leaves nothing behind.
 */
public final class Spawn {
    static {
        LongQueues.load();
        FullMemory.load();
        NoMemory.install();
    }

    private Spawn() {}

    /** How a process is started. The defaults are Erlang's. Used for one start. */
    public static final class Options {
        private final String label;
        private String site;
        private Object name;
        private Consumer<Pid> naming;
        private boolean links;
        private boolean monitors;
        private boolean traps;
        private boolean platform;
        private int capacity;
        private WhenFull whenFull = WhenFull.BLOCK;

        /** All defaults. The label is its name or the source line that starts it, or null. */
        public Options(String label) {
            this.label = label;
        }

        /** The source line that starts it, if the label is another text. */
        public Options site(String line) {
            site = line;
            return this;
        }

        /** The name to register, or null. */
        public Options name(Object wanted) {
            name = wanted;
            return this;
        }

        /**
         * A function that registers its pid under a name that the kernel does not know, before it runs, or
         * throws; or null.
         */
        public Options naming(Consumer<Pid> by) {
            naming = by;
            return this;
        }

        /** Whether it is linked to the current process before it runs. */
        public Options links(boolean on) {
            links = on;
            return this;
        }

        /** Whether the current process monitors it before it runs. */
        public Options monitors(boolean on) {
            monitors = on;
            return this;
        }

        /** Whether it begins with exit signals trapped. */
        public Options traps(boolean on) {
            traps = on;
            return this;
        }

        /** Whether it runs on a platform thread. */
        public Options platform(boolean on) {
            platform = on;
            return this;
        }

        /** The capacity of its mailbox, and what happens to a message that finds no room. */
        public Options bound(int most, WhenFull then) {
            capacity = most;
            whenFull = then;
            return this;
        }

        private Mailbox mailbox() {
            return capacity == 0 ? new OpenMailbox() : new BoundedMailbox(capacity, whenFull);
        }
    }

    /**
     * A process that was started.
     *
     * @param pid its pid
     * @param monitor the reference of the monitor, or null
     */
    public record Started(Pid pid, Ref monitor) {}
    /** Starts a process that does this work, with all defaults. */
    public static Pid spawn(String label, Callable<?> work) {
        Fiber starter = Fiber.current();
        starter.enter();
        OnFiber process = new OnFiber(pid(starter, label), new OpenMailbox(), work);
        list(starter, process);
        begin(process, prepare(process, false));
        return process.pid();
    }

    /** Starts a process with options. */
    public static Started spawn(Options options, Callable<?> work) {
        Fiber starter = Fiber.current();
        starter.enter();
        OnFiber process = onFiber(pid(starter, options.label), work, options);
        list(starter, process);
        Fiber fiber = prepare(process, options.platform);
        Ref monitor;
        try {
            monitor = attach(process, options);
        } catch (Throwable t) {
            drop(process);
            Fibers.discard(fiber);
            throw t;
        }
        begin(process, fiber);
        return new Started(process.pid(), monitor);
    }

    /**
     * Asks another node for a process, as the current process. Returns the reference that the answer has, which comes
     * as the message {@link Codec#spawned}; for a process that is monitored, its reference there is the monitor.
     *
     * @param what what it is to do, as the other node understands it
     */
    public static Ref request(LocalProcess me, Peer peer, Object what, boolean links, boolean monitors) {
        Ref ref = Refs.make(me);
        Remote.spawn(peer, new Signal.Spawn(me.pid(), ref, me.leader(), what, links, monitors, me.fiber().outgoing()));
        return ref;
    }

    /**
     * Gives up a request of the current process for a process of another node, which then is not linked and not
     * monitored: a link ends with the reason {@code abandoned}. Returns true if the answer will not come, and false if it
     * has come. Never waits.
     */
    public static boolean abandon(LocalProcess me, Peer peer, Ref request) {
        return Remote.abandon(me, peer, request);
    }

    private static Pid pid(Fiber starter, String label) {
        return new Pid(starter.environment().nextSerial(), Refs.creation(), label);
    }

    /**
     * Lists a new process, if it belongs to a simulation, gives it the group leader of its starter, and tells
     * of it, unless it is a guest. If its start fails, it is told of as one that has exited.
     */
    private static void list(Fiber starter, LocalProcess process) {
        ProcessTable.made(process);
        LocalProcess parent = LocalProcess.of(starter);
        if (parent != null) {
            process.setLeader(parent.leader());
        }
        if (Telemetry.isOn() && !process.isGuest()) {
            Telemetry.spawned(process.pid(), parent == null ? null : parent.pid());
        }
    }

    private static OnFiber onFiber(Pid pid, Callable<?> work, Options options) {
        String site = options.site;
        return site == null || site.equals(options.label) ? new OnFiber(pid, options.mailbox(), work)
                : new NamedOnFiber(pid, options.mailbox(), work, site);
    }

    private static Fiber prepare(OnFiber process, boolean platform) {
        Fiber fiber = platform ? Fibers.prepareOnPlatform(process.pid().label(), process, process)
                : Fibers.prepare(process.pid().label(), process, process);
        process.expectFiber(fiber);
        return fiber;
    }

    private static void nameElsewhere(LocalProcess process, Options options) {
        if (options.naming != null) {
            options.naming.accept(process.pid());
        }
    }

    private static Ref attach(LocalProcess process, Options options) {
        nameElsewhere(process, options);
        process.setTraps(options.traps);
        LocalProcess spawner = options.links ? LocalProcess.require("spawn-link") : options.monitors ? LocalProcess.require("spawn-monitor") : null;
        Monitor monitor = options.monitors ? Monitors.make(spawner, process.pid(), process.pid(), null, Ref.Alias.NONE) : null;
        ProcessTable.refuseIf(process.attach(spawner, options.name, options.links, monitor), options.name, process.pid());
        return monitor;
    }

    private static void begin(LocalProcess process, Fiber fiber) {
        try {
            Fibers.begin(fiber);
        } catch (Throwable t) {
            drop(process);
            throw t;
        }
    }

    /** Ends a process that never ran. */
    private static void drop(LocalProcess process) {
        process.exit(process.pid(), Dialect.get().kill, false, null);
        Zombies.remove(process);
    }

    /**
     * Gives a passivated process a fiber again. At each instant the process is in Passivated or in the list
     * of fibers.
     */
    static void activate(PassivatedWaiter waiter, LocalProcess process, Callable<?> work) {
        if (isOfOutside(process)) {
            activateOutside(waiter, process, work);
            return;
        }
        OnFiber body = (OnFiber) process; // a process on its caller's thread is never passivated
        body.work = work;
        Fiber fiber = Fibers.prepareWithoutContext(process.pid().label(), process, body); // the context of the sender is not its own
        Passivated.remove(waiter);
        begin(process, fiber); // if that fails, the process is killed
    }

    /** True if the process is of the real environment and the current fiber is in a simulation. */
    private static boolean isOfOutside(LocalProcess process) {
        return process.pid().creation() == Environment.REAL.creation() && Environment.current() != Environment.REAL;
    }

    /**
     * Activates it from a thread of the real environment. A fiber made in a simulation belongs to it, and
     * would end with it.
     */
    private static void activateOutside(PassivatedWaiter waiter, LocalProcess process, Callable<?> work) {
        Thread outside = new Thread(null, () -> activate(waiter, process, work), process.toString(), 0, false);
        outside.setDaemon(true);
        outside.start();
        Simulated.recordWake(Environment.REAL, outside);
    }

    /** A process that runs on a fiber of its own. It is the body of that fiber, which saves an object. */
    static sealed class OnFiber extends LocalProcess implements Runnable permits NamedOnFiber {
        // Set by the starter, then only accessed by the fiber.
        private Callable<?> work;

        OnFiber(Pid pid, Mailbox mailbox, Callable<?> work) {
            super(pid, mailbox);
            this.work = work;
        }

        private Callable<?> takeWork() {
            Callable<?> w = work;
            work = null; // so that the objects it closes over can be collected while it runs
            return w;
        }

        /** How the report of a failure names the process. */
        String who() {
            return toString();
        }

        @Override
        public final void run() {
            Fiber fiber = Fibers.begun();
            try {
                finish(Hosting.run(this, fiber, takeWork()));
            } catch (Throwable t) {
                Failures.report(Thread.currentThread(), t);
            } finally {
                Fibers.ended(fiber);
            }
        }

        private void finish(Throwable thrown) {
            boolean toldToExit = cause() instanceof Cause.Kill || cause() != null && Cancelled.isBehind(thrown);
            if (thrown != null && !toldToExit) {
                reports(thrown);
            }
        }

        @Override
        final boolean reports(Throwable thrown) {
            Failures.report(who(), Thread.currentThread(), thrown);
            return true;
        }
    }

    /** The same, for a process whose label is not the source line that starts it. */
    private static final class NamedOnFiber extends OnFiber {
        private final String site;

        NamedOnFiber(Pid pid, Mailbox mailbox, Callable<?> work, String site) {
            super(pid, mailbox, work);
            this.site = site;
        }

        @Override
        String who() {
            return super.who() + ", " + site;
        }
    }

    /** A process on its caller's thread. What the body throws goes to the caller. */
    static final class OnThread extends LocalProcess {
        // Guarded by its part of the list of guests.
        OnThread before;
        OnThread after;

        OnThread(Pid pid, Mailbox mailbox) {
            super(pid, mailbox);
        }

        @Override
        boolean reports(Throwable thrown) {
            return false;
        }
    }

    /** How the work of a process on its caller's thread ended. {@code thrown} is null if it returned. */
    public record Guest(Pid pid, Throwable thrown) {}

    /** Gives the process its names. If that fails, the process ends, since it was told to run. */
    private static void nameGuest(OnThread process, Options options) {
        try {
            if (options.name != null) {
                ProcessTable.register(options.name, process.pid());
            }
            nameElsewhere(process, options);
        } catch (Throwable t) {
            drop(process);
            throw t;
        }
    }

    /** Makes the current thread a process while the work runs, on this thread. */
    public static Guest host(Options options, Callable<?> work) {
        Fiber fiber = Fiber.current();
        fiber.enter();
        OnThread process = new OnThread(pid(fiber, options.label), options.mailbox());
        list(fiber, process);
        process.expectFiber(fiber);
        process.setTraps(options.traps);
        nameGuest(process, options);
        Guests.add(process);
        try {
            return new Guest(process.pid(), Hosting.run(process, fiber, work));
        } finally {
            Guests.remove(process);
        }
    }
}
