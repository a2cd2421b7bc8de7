package magnetar.kernel.sched;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.VarHandle;

/**
 * Starts a virtual thread that is in no list of the JVM, so that it is collected when nothing can wake it any
 * more.
 *
 * <p>This does what {@code VirtualThread.start} does, with one exception: the thread gets the root container,
 * but is not added to that container's set. At its end it removes itself from the set like every thread,
 * which does nothing to a set that does not hold it.
 *
 * <p>Invariant: a thread is started once, here or elsewhere. The CAS from NEW to STARTED decides which
 * starter wins. A thread that could not be submitted becomes TERMINATED, as in the JDK.
 *
 * <p>Relies on the inside of {@code java.lang.VirtualThread}, as {@link HandOff} does, its only user. It is
 * off where the JVM's root container only counts its threads ({@code -Djdk.trackAllThreads=false}). Threads
 * started here are missing from the thread dumps of {@code jcmd}; the list of fibers has them. Rejected: the
 * same for fibers that have an owner, which the JVM may well show.
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

    /**
     * True if threads are started this way. First called outside of simulations, because it starts a thread
     * that no seed orders.
     */
    static boolean isOn() {
        return ON;
    }

    /** Starts the virtual thread and returns true, or does nothing and returns false. */
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

    /** The private parts of virtual threads that are used here. */
    private record Inside(VarHandle state, MethodHandle admit, MethodHandle submit, MethodHandle giveUp, int fresh, int started) {

        /** Null if the class is closed, or does not look as expected. */
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

        /** Gives a thread the container that a plainly started thread has. */
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
