package magnetar.kernel.inspect;

import java.lang.StackWalker.StackFrame;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import magnetar.kernel.sched.Scheduler;
import magnetar.kernel.sched.Settings;

/**
 * Reads the local variables of a waiting virtual thread: what its methods still need, and so what it holds.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Only a thread that is unmounted and waits is read. Meanwhile its state has the JDK's bit for suspended threads,
 *       so that it does not run. A wake-up that comes then sets only its permit.
 *   <li>Afterwards the thread has its state again. If its permit is set, it is submitted, so no wake-up is lost.
 * </ol>
 *
 * <p>Relies on the inside of {@code java.lang.VirtualThread}, as the hand-off does, and on
 * {@code --add-opens java.base/java.lang=ALL-UNNAMED}. It is off where that is closed or looks different, and on a
 * JDK newer than the known one, unless the property {@code magnetar.locals} says otherwise.
 *
 * <p>Source: {@code VirtualThread.tryGetStackTrace} of JDK 25, which does the same for {@code Thread.getStackTrace}.
 * Rejected: a heap dump, which stops the program for about a second for each gigabyte; an agent.
 */
public final class Locals {
    private static final Inside INSIDE = Settings.flag("magnetar.locals", Runtime.version().feature() <= Scheduler.KNOWN) ? Inside.open() : null;

    private Locals() {}

    /**
     * A frame of a stack.
     *
     * @param at the place in the source
     * @param objects the objects in its local variables, those whose monitors it holds, and those that it has
     *     evaluated as arguments of a call while it still evaluates another argument
     * @param monitors the objects whose monitors it holds
     */
    public record Frame(StackTraceElement at, List<Object> objects, List<Object> monitors) {}

    /** True if locals can be read in this JVM. */
    public static boolean isOn() {
        return INSIDE != null;
    }

    /**
     * The frames of this thread, the innermost first. Null if it does not wait, is no virtual thread, or cannot be read.
     * Takes some tens of microseconds. If the thread is woken meanwhile, it runs afterwards.
     */
    public static List<Frame> of(Thread thread) {
        if (INSIDE == null || !INSIDE.type.isInstance(thread)) {
            return null;
        }
        int state = (int) INSIDE.state.getVolatile(thread);
        boolean parked = state == INSIDE.parked || state == INSIDE.timedParked;
        if (!parked && state != INSIDE.blocked || !INSIDE.state.compareAndSet(thread, state, state | INSIDE.suspended)) {
            return null;
        }
        try {
            return INSIDE.frames(thread);
        } finally {
            INSIDE.state.setVolatile(thread, state);
            VarHandle permit = parked ? INSIDE.parkPermit : INSIDE.blockPermit;
            if ((boolean) permit.getVolatile(thread) && INSIDE.state.compareAndSet(thread, state, parked ? INSIDE.unparked : INSIDE.unblocked)) {
                INSIDE.submit(thread);
            }
        }
    }

    /** The private parts of virtual threads that are used here. */
    private record Inside(Class<?> type, VarHandle state, VarHandle parkPermit, VarHandle blockPermit, VarHandle continuation,
            MethodHandle submit, MethodHandle walker, MethodHandle locals, MethodHandle operands, MethodHandle monitors,
            int parked, int timedParked, int unparked, int blocked, int unblocked, int suspended) {

        /** Null if a class is closed, or does not look as expected. */
        static Inside open() {
            try {
                Class<?> c = Class.forName("java.lang.VirtualThread");
                MethodHandles.Lookup in = MethodHandles.privateLookupIn(c, MethodHandles.lookup());
                Class<?> frame = Class.forName("java.lang.LiveStackFrame");
                MethodHandles.Lookup inFrame = MethodHandles.privateLookupIn(frame, MethodHandles.lookup());
                MethodType objects = MethodType.methodType(Object[].class, StackFrame.class);
                return new Inside(c, variable(in, c, "state", int.class), variable(in, c, "parkPermit", boolean.class),
                        variable(in, c, "blockPermit", boolean.class),
                        variable(in, c, "cont", Class.forName("jdk.internal.vm.Continuation")),
                        in.findVirtual(c, "submitRunContinuation", MethodType.methodType(void.class))
                                .asType(MethodType.methodType(void.class, Thread.class)),
                        walker(in, c),
                        inFrame.findVirtual(frame, "getLocals", MethodType.methodType(Object[].class)).asType(objects),
                        inFrame.findVirtual(frame, "getStack", MethodType.methodType(Object[].class)).asType(objects),
                        inFrame.findVirtual(frame, "getMonitors", MethodType.methodType(Object[].class)).asType(objects),
                        number(in, c, "PARKED"), number(in, c, "TIMED_PARKED"), number(in, c, "UNPARKED"),
                        number(in, c, "BLOCKED"), number(in, c, "UNBLOCKED"), number(in, c, "SUSPENDED"));
            } catch (Throwable closed) {
                return null;
            }
        }

        private static VarHandle variable(MethodHandles.Lookup in, Class<?> c, String name, Class<?> type) throws ReflectiveOperationException {
            return in.findVarHandle(c, name, type).withInvokeBehavior();
        }

        private static int number(MethodHandles.Lookup in, Class<?> c, String name) throws Throwable {
            return (int) in.findStaticGetter(c, name, int.class).invoke();
        }

        /** From a continuation to a walker that reads local variables. */
        @SuppressWarnings({"unchecked", "rawtypes"})
        private static MethodHandle walker(MethodHandles.Lookup in, Class<?> thread) throws Throwable {
            Class<?> continuation = Class.forName("jdk.internal.vm.Continuation");
            Class<?> scope = Class.forName("jdk.internal.vm.ContinuationScope");
            Class<?> extended = Class.forName("java.lang.StackWalker$ExtendedOption");
            Object locals = Enum.valueOf((Class) extended, "LOCALS_AND_OPERANDS");
            MethodHandle make = MethodHandles.privateLookupIn(StackWalker.class, MethodHandles.lookup()).findStatic(StackWalker.class, "newInstance",
                    MethodType.methodType(StackWalker.class, Set.class, extended, scope, continuation));
            Object threads = in.findStaticGetter(thread, "VTHREAD_SCOPE", scope).invoke();
            return MethodHandles.insertArguments(make, 0, EnumSet.noneOf(StackWalker.Option.class), locals, threads)
                    .asType(MethodType.methodType(StackWalker.class, Object.class));
        }

        List<Frame> frames(Thread thread) {
            try {
                StackWalker stack = (StackWalker) walker.invokeExact((Object) continuation.get(thread));
                return stack.walk(frames -> frames.map(this::frame).toList());
            } catch (RuntimeException | Error e) {
                throw e;
            } catch (Throwable e) {
                throw new AssertionError(e);
            }
        }

        private Frame frame(StackFrame frame) {
            try {
                List<Object> monitors = objects((Object[]) monitors().invokeExact(frame));
                List<Object> held = objects((Object[]) locals().invokeExact(frame));
                held.addAll(objects((Object[]) operands().invokeExact(frame)));
                held.addAll(monitors);
                return new Frame(frame.toStackTraceElement(), held, monitors);
            } catch (RuntimeException | Error e) {
                throw e;
            } catch (Throwable e) {
                throw new AssertionError(e);
            }
        }

        /** These values without null and the primitive ones. */
        private static List<Object> objects(Object[] all) {
            List<Object> objects = new ArrayList<>();
            for (Object o : all == null ? new Object[0] : all) {
                if (o != null && !o.getClass().getName().startsWith("java.lang.LiveStackFrame")) {
                    objects.add(o);
                }
            }
            return objects;
        }

        void submit(Thread thread) {
            try {
                submit.invokeExact(thread);
            } catch (RuntimeException | Error e) {
                throw e;
            } catch (Throwable e) {
                throw new AssertionError(e);
            }
        }
    }
}
