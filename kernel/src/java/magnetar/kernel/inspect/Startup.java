package magnetar.kernel.inspect;

import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.process.Caller;
import magnetar.kernel.process.FullMemory;
import magnetar.kernel.time.Wheel;

/**
 * Initialises the kernel's classes while there is stack for it.
 *
 * <p>A class whose initialiser overflows the stack stays broken for the life of the JVM. So if a deep
 * recursion were the first to use the kernel, it could disable the kernel for the whole program. Linking a
 * call site also needs more stack than an operation does, so each path of a wake-up is run once as well.
 *
 * <p>Memory has the same effect. A call site that is first linked when memory has run out may stay broken,
 * since the JVM remembers a {@code BootstrapMethodError}. So the code that runs then has few call sites to
 * link. Strings are concatenated inline ({@code -XDstringConcat=inline}). A class replaces a lambda that
 * captures a value, and {@code instanceof} replaces a switch over types. A lambda that captures nothing is a
 * field. The remaining call sites are linked here.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Each class of the kernel, nested ones too, is in one of the two lists. A test compares them with the
 *       compiled kernel.
 *   <li>No class is initialised twice. A second call has no effect that a program could notice.
 *   <li>The rehearsal ends after at most {@value #PATIENCE_MILLIS} ms, because its caller may hold the only
 *       carrier.
 * </ol>
 *
 * <p>Rejected: initialising in the background, because a first use could come before it has finished.
 */
public final class Startup {
    private static final long PATIENCE_MILLIS = 100;

    private static final String CLASSES = """
            sched: Carriers Carriers$Direct Carriers$Managed Carriers$Pool Computing Computing$Watched Fault HandOff HandOff$Inside
                HandOff$Resumption HandOff$Way JdkScheduler Schedulable Scheduler SchedulerMonitor Schedulers Settings Untracked Untracked$Inside
            report: Excerpt Excerpt$Full Failures Failures$Failure Failures$Handler Frames NoMemory Reserve
                Subscribers Telemetry Telemetry$Listener Telemetry$Listening Unwinding
            fiber: BeforeInterrupt BeforeInterrupt$Ending BeforeInterrupt$Shield BeforeInterrupt$State Cancelled Cause Cause$Cancel Cause$Kill Cause$Leave Exit Fiber Fiber$RareState FiberBody FiberBody$1 Fibers
                Fibers$Given Fibers$Hold Propagation Propagation$Accessor Propagation$Before Propagation$Captured Shard PerEnvironment CancellationScope Simulated Spin StackRoom ThreadLocals Environment
            park: Latch Parked Source WaitElsewhere WaitInfo WaitReason WaitSign Waiter Waiter$Pairing
            time: DeadlineTimer DeadlineTimer$Armed Durations Expiry Timer Waits Wheel Wheel$WheelThread
            channel: Buffer Buffer$Fixed Buffer$Promise Callback Callback$Delivery Callback$Task Channel Channel$1
                ChannelInfo ChannelMaker ForeignWaiter GoBody Handler Handler$Completion
                Node NodeHandler NodeHandler$1 NodeQueue Port Port$1 Ports ReadPort Ring Ring$Dropping
                Ring$Fixed Ring$Sliding Ring$Unbounded Select Select$Chosen Select$Losers Select$Operation
                TimeoutChannel TimeoutChannel$Awaited TimeoutChannel$Closing Transform TransformChannel
                TransformChannel$Sink UsualMaker WritePort
            process: Address Aliases SmallSet BoundedMailbox BoundedMailbox$Spared BoundedMailbox$SparedInContext Caller Calls Calls$AnswerTo
                Calls$Call Calls$Edge Calls$Failed Calls$IsRequest Calls$Server Calls$Standing
                Calls$Standing$CallTimer Calls$Why Clauses DeadLetters DeadLetters$Letter DeathNotice Delivery FullMemory
                Delivery$1 Guards Guests HeavyHitters Hosting Hosting$Continue Hosting$InContext InFlight Codec Links Links$Step
                LocalProcess LocalProcess$Attachment LongQueues LongQueues$Growth
                LongQueues$Warning Mailbox Mailbox$PushResult MailboxInfo Matcher Monitor Monitors Names Node Node$InContext
                Arrivals Connection Connection$Request Connection$Tie Exports ForeignRef Monitor$Foreign Monitor$Named Outbox Peer Peers Peers$Held Peers$Key Peers$Name Remote RemoteName Room Room$Place Signal
                Signal$Demonitor Signal$Down Signal$Exit Signal$ExitLink Signal$Link Signal$Message Signal$Monitor Signal$Spawn
                Signal$SpawnReply Signal$Unlink Signal$UnlinkAck Transport
                OpenMailbox Owned Passivated PassivatedWaiter PassivatedWaiter$Again Pid Pid$Ended ProcessInfo
                ProcessTable Receiver Receiver$RareState Ref Ref$Alias Refs Send SendTimer SendTimers SendTimers$TimerRef Spawn
                Spawn$Guest Spawn$NamedOnFiber Spawn$OnFiber Spawn$OnThread Spawn$Options Spawn$Started Traffic Traffic$Observer WhenFull Dialect
                Dialect$1 Zombie Zombies
            scope: Fork Fork$1 Fork$Body Joiner Offload Offload$Call Offload$Ending Offload$Info
                Offload$Look Offload$Worker OnCancel OnCancel$Call OnCancel$Limit Scope Scope$1 Scope$Deadline Scope$Ending Scope$State Scope$Stuck
            network: Member Network Network$Events View
            inspect: FiberInfo Locals Locals$Frame Locals$Inside RuntimeInfo SocketNames Startup Watchdog Watchdog$Episode Watchdog$Holding
            """;

    private static final String SIMULATOR = """
            sim: Choice Choice$Place Choice$What ChoicePoint Config DelayedSignals DelayedSignals$Signal
                DelayedSignals$Way Event EventLog FailureReport FaultInjector FaultInjector$1 Monitors Names NodeCall Nodes
                Run Run$Failure Run$Fullest Run$Problem Run$Waiting SimFiber SimFiber$1 SimEnvironment SimEnvironment$Condition SimMember SimMember$State SimMember$Told SimNetwork
                SimNetwork$Act SimNetwork$Way SimNode SimPeer SimPeer$Frame SimPeer$Next Simulation
                Simulation$1 Simulation$2 Simulation$3 SourceLines Spoken Stalled Stalled$Submission Strategy Strategy$1 Strategy$Drawn
                Strategy$Priorities Strategy$Replay Strategy$Uniform TearDown
            """;

    private Startup() {}

    /** Initialises all classes except the simulator's, and runs each path of a wake-up once. */
    public static void prepare() {
        initialise(CLASSES);
        rehearse();
    }

    /** Initialises the classes of the simulator. */
    public static void prepareSimulator() {
        initialise(SIMULATOR);
    }

    /** The names of all classes that the two calls initialise, for the test. */
    public static String[] names() {
        return (names(CLASSES) + names(SIMULATOR)).split(" ");
    }

    /** Turns lines of a package and its classes into full names, each followed by a space. */
    private static String names(String lines) {
        StringBuilder names = new StringBuilder();
        String prefix = "";
        for (String word : lines.trim().split("\\s+")) {
            if (word.endsWith(":")) {
                prefix = "magnetar.kernel.".concat(word.substring(0, word.length() - 1)).concat(".");
            } else {
                names.append(prefix).append(word).append(' ');
            }
        }
        return names.toString();
    }

    private static void initialise(String lines) {
        ClassLoader loader = Startup.class.getClassLoader();
        for (String name : names(lines).split(" ")) {
            try {
                Class.forName(name, true, loader);
            } catch (ClassNotFoundException e) {
                throw new NoClassDefFoundError(name); // the compiled kernel is incomplete
            }
        }
    }

    /** A virtual thread wakes a parked taker, then this thread wakes another one. */
    private static void rehearse() {
        Channel<Object> met = Channel.rendezvous();
        long end = System.nanoTime() + PATIENCE_MILLIS * 1_000_000;
        Thread.startVirtualThread(() -> take(met));
        Thread putter = Thread.startVirtualThread(() -> put(met, end));
        try {
            putter.join(PATIENCE_MILLIS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        Thread.startVirtualThread(() -> take(met));
        put(met, end);
        met.close();
        Wheel.of(Environment.REAL);
        FullMemory.prepare();
        Caller.line();
    }

    private static void take(Channel<Object> from) {
        LockSupport.parkNanos(1); // the JDK links its own call sites
        try {
            from.receive();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void put(Channel<Object> to, long end) {
        while (!to.trySend(Boolean.TRUE) && System.nanoTime() < end) {
            Thread.yield();
        }
    }
}
