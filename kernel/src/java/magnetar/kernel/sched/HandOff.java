package magnetar.kernel.sched;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.VarHandle;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ForkJoinTask;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.locks.LockSupport;

/**
 * Wakes a fiber on the waker's own carrier, without waking another carrier for it. Most wakers are about to park, and the woken fiber runs next on their core:
 * 0.2 us for a wake-up instead of 0.5 to 1.
 *
 * <p>What {@code LockSupport.unpark} does to a plainly parked virtual thread is done here as well (PARKED to UNPARKED, then the submission), but the
 * submission is lazy: it signals nobody. The permit, which the JDK sets first, is not set: a thread that goes on from UNPARKED
 * needs none. And if the thread has meanwhile woken and parked in another way, the change of its state fails; a permit that was set for it by then would let nobody
 * wake it.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Only a target that is plainly parked, on the JDK's scheduler, is handed over, by a virtual thread that is on it as well. All others
 *       (parked with a time, pinned, about to park, platform threads) are woken by {@code LockSupport.unpark}.
 *   <li>A fiber hands over once between two parks: when it parks, one fiber can follow it on its carrier. Each further one that it wakes is submitted with a
 *       signal, so that another carrier comes, which may take the first one as well.
 *   <li>While a carrier is idle, a fiber that was handed over waits no more than three ticks of the {@link Ticker}. The ticker is reminded after each lazy
 *       submission, and {@link #mayBeStranded} is true as long as the fiber lies in a queue. While all carriers compute it waits for one of them.
 *   <li>Threads that a platform thread starts or wakes lie in the pool's queue of submissions, outside of the queues of the carriers. A carrier that has run a fiber
 *       which was woken here takes up to {@value #SHARE} of them to the end of its own queue: at {@link Schedulable#looksOutside some turns} of each fiber, and when
 *       the ticker {@link Ticker#takeOutside says} that some may wait there. If it has taken so many that there may be more, it says so itself. So they have their
 *       turn among the fibers that wake each other.
 * </ol>
 *
 * <p>Relies on the inside of {@code java.lang.VirtualThread} and so on {@code --add-opens java.base/java.lang=ALL-UNNAMED}, or
 * {@code =magnetar.kernel} on the module path; where that is closed
 * or looks different, or the JDK is newer than those it was proved on, it is off, and fibers are woken by {@code LockSupport.unpark}. The JDK pins
 * the waker during the submission, so that it stays on the carrier whose queue it adds to.
 *
 * <p>Source of the look outside: Go's scheduler, which takes from the global queue at every 61st turn.
 * Refused: the JDK's own {@code lazySubmitRunContinuation}, which submits with a signal when a virtual thread calls it; a scheduler of our own (docs/decisions/0008).
 */
public final class HandOff implements Scheduler {
    /** How often the queues are looked at, some microseconds in all: two fibers that answer each other leave them empty several times meanwhile. */
    private static final int LOOKS = 64;

    /** How many are taken in at once, some tens of microseconds' work. */
    private static final int SHARE = 256;

    private static final Inside INSIDE = Scheduler.mayLookInside() ? Inside.open() : null;
    private static final boolean ON = INSIDE != null;
    private static final MethodHandle SUBMIT = ON ? INSIDE.submit : null;
    private static final VarHandle STATE = ON ? INSIDE.state : null;
    private static final VarHandle SCHEDULER = ON ? INSIDE.scheduler : null;
    private static final int PARKED = ON ? INSIDE.parked : 0;
    private static final int UNPARKED = ON ? INSIDE.unparked : 0;
    private static final ForkJoinPool POOL = ON ? INSIDE.pool : null;

    HandOff() {}

    /** True if fibers are handed over. */
    public static boolean isOn() {
        return ON;
    }

    @Override
    public void wake(Thread thread, Schedulable target, Schedulable waker) {
        Way way;
        try {
            way = tryToWake(thread, target, waker);
        } catch (OutOfMemoryError noRoom) { // before anything was changed; the JDK waits until it has room
            way = Way.NOT;
        }
        if (way == Way.NOT) {
            LockSupport.unpark(thread);
        }
    }

    @Override
    public boolean startsUntracked() {
        return Untracked.isOn();
    }

    @Override
    public boolean startUntracked(Thread thread) {
        return Untracked.start(thread);
    }

    @Override
    public boolean handsOver() {
        return true;
    }

    /** How a thread was woken. */
    enum Way {
        /** It was not. */
        NOT,
        /** Submitted with a signal. */
        SIGNALLED,
        /** Lazily. */
        HANDED_OVER
    }

    /** Wakes the thread, on which the target runs, if it is plainly parked and the current thread, on which the waker runs, is on its scheduler; else nothing was done. */
    static Way tryToWake(Thread thread, Schedulable target, Schedulable waker) {
        if (!ON || waker == null || !thread.isVirtual() || SCHEDULER.get(thread) != POOL || SCHEDULER.get(Thread.currentThread()) != POOL) {
            return Way.NOT;
        }
        boolean lazy = !waker.hasHandedOver() || Fault.HAND_OFF_TWICE_BETWEEN_PARKS.isPlanted();
        Resumption resumption = resumption(target, lazy); // before the state is changed: there may be no memory
        if (resumption == null || !STATE.compareAndSet(thread, PARKED, UNPARKED)) {
            return Way.NOT;
        }
        waker.handsOver();
        submit(thread, resumption);
        if (!lazy) {
            return Way.SIGNALLED;
        }
        Ticker.remind();
        return Way.HANDED_OVER;
    }

    /**
     * True if somebody waits for a carrier that may not come: from outside, or in the queue of one that goes on computing. If they are seen
     * empty once, nobody in them is stuck.
     */
    @Override
    public boolean mayBeStranded() {
        if (POOL.hasQueuedSubmissions()) {
            return true;
        }
        for (int looks = 0; looks < LOOKS; looks++) {
            if (POOL.getQueuedTaskCount() == 0) {
                return false;
            }
            Thread.onSpinWait();
        }
        return true;
    }

    /** Null if there is no memory for it: the JDK's own way waits until there is. */
    private static Resumption resumption(Schedulable fiber, boolean lazy) {
        try {
            return new Resumption(fiber, lazy);
        } catch (OutOfMemoryError noRoom) {
            return null;
        }
    }

    // The last argument lets the JDK wait for memory and try again, so that this does not fail once the state was changed.
    private static void submit(Thread target, Executor how) {
        try {
            SUBMIT.invokeExact(target, how, true);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** What is needed of the inside of virtual threads. */
    private record Inside(MethodHandle submit, VarHandle state, VarHandle scheduler, int parked, int unparked,
            ForkJoinPool pool) {

        /** False with {@code -XX:-VMContinuations}, where a virtual thread is a platform thread in disguise, of another class. */
        private static boolean isUsual() throws ClassNotFoundException {
            return Class.forName("java.lang.VirtualThread").isInstance(Thread.ofVirtual().unstarted(() -> {}));
        }

        /** Null if it is closed, or looks different from what is expected. */
        static Inside open() {
            try {
                Class<?> c = Class.forName("java.lang.VirtualThread");
                MethodHandles.Lookup in = MethodHandles.privateLookupIn(c, MethodHandles.lookup());
                return !isUsual() ? null : new Inside(
                        in.findVirtual(c, "submitRunContinuation", MethodType.methodType(void.class, Executor.class, boolean.class))
                                .asType(MethodType.methodType(void.class, Thread.class, Executor.class, boolean.class)),
                        in.findVarHandle(c, "state", int.class).withInvokeBehavior(),
                        in.findVarHandle(c, "scheduler", Executor.class).withInvokeBehavior(),
                        (int) in.findStaticGetter(c, "PARKED", int.class).invoke(),
                        (int) in.findStaticGetter(c, "UNPARKED", int.class).invoke(),
                        (ForkJoinPool) in.findStaticGetter(c, "DEFAULT_SCHEDULER", ForkJoinPool.class).invoke());
            } catch (Throwable closed) {
                return null;
            }
        }
    }

    /** A fiber to be run, for the pool, and how it gets there. It never counts as done, since nobody waits for it: that saves a compare-and-set. */
    private static final class Resumption extends ForkJoinTask<Void> implements Executor {
        private static final long serialVersionUID = 1L;
        private final transient Schedulable fiber;
        private final boolean lazy;
        private transient Runnable resume;

        Resumption(Schedulable fiber, boolean lazy) {
            this.fiber = fiber;
            this.lazy = lazy;
        }

        @Override
        public void execute(Runnable resume) {
            this.resume = resume;
            if (lazy) {
                POOL.lazySubmit(this);
            } else {
                POOL.execute(this);
            }
        }

        @Override
        protected boolean exec() {
            boolean due = fiber.looksOutside();
            resume.run();
            if ((due || Ticker.takeOutside()) && !Fault.NO_CARRIER_POLLS_SUBMISSIONS.isPlanted()) {
                takeIn();
            }
            return false;
        }

        private static void takeIn() {
            for (int left = SHARE; left > 0; left--) {
                ForkJoinTask<?> task = pollSubmission();
                if (task == null || !takeIn(task)) {
                    return;
                }
            }
            Ticker.tellOutside();
        }

        /** Puts it at the end of this carrier's queue, or runs it at once if there is no room; false then. */
        private static boolean takeIn(ForkJoinTask<?> task) {
            try {
                task.fork();
                return true;
            } catch (RejectedExecutionException | OutOfMemoryError noRoom) {
                runNow(task);
                return false;
            }
        }

        private static void runNow(ForkJoinTask<?> task) {
            if (task instanceof Resumption r) {
                r.exec(); // to invoke it is to wait until it counts as done
            } else {
                task.quietlyInvoke();
            }
        }

        @Override
        public Void getRawResult() {
            return null;
        }

        @Override
        protected void setRawResult(Void value) {}
    }
}
