package magnetar.kernel.sched;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.VarHandle;

/**
 * Starts a virtual thread that no list of the JVM's holds, so that it is collected when nobody can reach what it waits for.
 *
 * <p>What {@code VirtualThread.start} does is done here as well, but for one thing: the thread is given the root container, and is not put
 * into its set. It leaves that set at its end as all others do, which does nothing to a set that it is not in.
 *
 * <p>Invariant: a thread is started once, here or elsewhere, and by its starter alone: NEW goes to STARTED by one compare-and-set. One that could
 * not be submitted is TERMINATED, as the JDK has it.
 *
 * <p>Relies on the inside of {@code java.lang.VirtualThread}, as {@link HandOff} does, which alone uses this; off where the JVM's own
 * root counts what it does not hold ({@code -Djdk.trackAllThreads=false}). What starts so is in no thread dump of {@code jcmd}: the list of
 * fibers has it. Refused: the same for fibers that somebody owns, which the JVM may show.
 */
final class Untracked {
    private static final Inside INSIDE = Scheduler.mayLookInside() ? Inside.open() : null;
    private static final boolean ON = INSIDE != null;
    private static final VarHandle STATE = ON ? INSIDE.state : null;
    private static final MethodHandle ADMIT = ON ? INSIDE.admit : null;
    private static final MethodHandle SUBMIT = ON ? INSIDE.submit : null;
    private static final MethodHandle GIVE_UP = ON ? INSIDE.giveUp : null;
    private static final int NEW = ON ? INSIDE.fresh : 0;
    private static final int STARTED = ON ? INSIDE.started : 0;

    private Untracked() {}

    /** True if threads are started so. Asked first outside of simulations: to find out takes a thread that no seed orders. */
    static boolean isOn() {
        return ON;
    }

    /** True if the virtual thread was started; else nothing was done. */
    static boolean start(Thread thread) {
        if (!ON || !STATE.compareAndSet(thread, NEW, STARTED)) {
            return false;
        }
        try {
            submit(thread);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
        return true;
    }

    private static void submit(Thread thread) throws Throwable {
        boolean done = false;
        try {
            ADMIT.invokeExact(thread);
            SUBMIT.invokeExact(thread);
            done = true;
        } finally {
            if (!done) {
                GIVE_UP.invokeExact(thread);
            }
        }
    }

    /** What is needed of the inside of virtual threads. */
    private record Inside(VarHandle state, MethodHandle admit, MethodHandle submit, MethodHandle giveUp, int fresh, int started) {

        /** Null if it is closed, or is not what this JDK was known by. */
        static Inside open() {
            try {
                Class<?> c = Class.forName("java.lang.VirtualThread");
                MethodHandles.Lookup in = MethodHandles.privateLookupIn(c, MethodHandles.lookup());
                MethodType onThread = MethodType.methodType(void.class, Thread.class);
                MethodHandle giveUp = in.findVirtual(c, "afterDone", MethodType.methodType(void.class, boolean.class));
                MethodHandle submit = in.findVirtual(c, "externalSubmitRunContinuationOrThrow", MethodType.methodType(void.class));
                return new Inside(in.findVarHandle(c, "state", int.class).withInvokeBehavior(),
                        admission(in).asType(onThread), submit.asType(onThread), MethodHandles.insertArguments(giveUp, 1, false).asType(onThread),
                        (int) in.findStaticGetter(c, "NEW", int.class).invoke(), (int) in.findStaticGetter(c, "STARTED", int.class).invoke());
            } catch (Throwable closed) {
                return null;
            }
        }

        /** Gives a thread the container that a plainly started one has. */
        private static MethodHandle admission(MethodHandles.Lookup in) throws Throwable {
            Class<?> container = Thread.class.getDeclaredMethod("threadContainer").getReturnType();
            Object root = in.findVirtual(Thread.class, "threadContainer", MethodType.methodType(container)).invoke(Thread.startVirtualThread(() -> {}));
            if (!root.getClass().getSimpleName().equals("TrackingRootContainer")) {
                throw new IllegalStateException("it counts what it holds");
            }
            return MethodHandles.insertArguments(
                    in.findVirtual(Thread.class, "setThreadContainer", MethodType.methodType(void.class, container)), 1, root);
        }
    }
}
