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
 * Wakes a fiber on the waker's own carrier, without waking another carrier for it. Most wakers are about to
 * park, and then the woken fiber runs next on their core: a wake-up takes 0.2 us instead of 0.5 to 1.
 *
 * <p>For a plainly parked virtual thread this does what {@code LockSupport.unpark} does: it changes PARKED to
 * UNPARKED, then submits the continuation. The submission is lazy, that is, it signals no carrier. The JDK
 * also sets the permit first; this does not. A thread that continues from UNPARKED needs no permit. If the
 * thread has meanwhile woken and parked in another way, the state change fails. A permit set before that
 * would make the fallback {@code unpark} do nothing.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A hand-over needs a target that is plainly parked and a waker that is a virtual thread, both on the
 *       JDK's scheduler. All other targets (parked with a time limit, pinned, about to park, platform
 *       threads) get {@code LockSupport.unpark}.
 *   <li>A fiber hands over at most once between two parks, because one fiber can follow it on its carrier.
 *       Each further fiber that it wakes is submitted as the JDK does, behind the first one. The JDK signals
 *       a carrier only if the place before is empty, so mostly not while the first one is still in the queue.
 *   <li>While a carrier is idle, a fiber that was handed over waits at most three ticks of the
 *       {@link SchedulerMonitor}. Each lazy submission reminds the monitor, and {@link #mayBeStranded} is true as long
 *       as the fiber is in a queue. While all carriers are busy, the fiber waits for one of them.
 *   <li>Fibers that a platform thread starts or wakes are external submissions: they are in the pool's
 *       submission queues, not in a carrier's queue. A carrier moves up to {@value #BATCH} of them to the end
 *       of its own queue at each {@value #RESUMPTIONS_BETWEEN_POLLS}th fiber woken here that it runs, and when the
 *       monitor {@link SchedulerMonitor#takePollRequest asks} for it. A carrier that has moved a
 *       full batch reports the same. So external submissions get their turn among fibers that wake each
 *       other.
 *   <li>A carrier counts as computing if it has run the same body for {@link SchedulerMonitor#PATIENCE_NANOS} ns:
 *       whenever the monitor looked, the same continuation was mounted on it, and it had resumed no fiber
 *       woken here in between ({@link Computing}).
 *   <li>While carriers are added, a carrier that polls at the monitor's request also takes up to
 *       {@value #SHARE} tasks from the queues of others. So none stays behind a fiber that computes, although
 *       no other carrier's queue runs empty.
 * </ol>
 *
 * <p>Relies on the inside of {@code java.lang.VirtualThread} and so on
 * {@code --add-opens java.base/java.lang=ALL-UNNAMED}, or {@code =magnetar.kernel} on the module path. It is
 * off where that is closed or looks different, and on a JDK newer than those it was tested on. Then
 * {@code LockSupport.unpark} wakes the fibers. The JDK pins the waker during the submission, so that it stays
 * on the carrier whose queue it adds to.
 *
 * <p>Source of the polling: Go's scheduler, which takes from the global queue at every 61st turn. Rejected:
 * the JDK's own {@code lazySubmitRunContinuation}, which submits with a signal when a virtual thread calls
 * it; a signal for the second fiber in every case; a scheduler of our own (docs/decisions/0008).
 */
public final class HandOff implements Scheduler {
    /**
     * How often the queues are checked, some microseconds in all. Two fibers that answer each other leave
     * them empty several times meanwhile.
     */
    private static final int POLLS = 64;

    /** The largest batch of external submissions, some tens of microseconds of work. */
    private static final int BATCH = 256;

    /** How many tasks of other carriers are taken over at once. */
    private static final int SHARE = 64;

    private static final int RESUMPTIONS_BETWEEN_POLLS = 64;

    private static final Inside INSIDE = Scheduler.mayLookInside() ? Inside.open() : null;
    private static final boolean ON = INSIDE != null;
    private static final MethodHandle SUBMIT = ON ? INSIDE.submit : null;
    private static final VarHandle STATE = ON ? INSIDE.state : null;
    private static final VarHandle SCHEDULER = ON ? INSIDE.scheduler : null;
    private static final int PARKED = ON ? INSIDE.parked : 0;
    private static final int UNPARKED = ON ? INSIDE.unparked : 0;
    private static final ForkJoinPool POOL = ON ? INSIDE.pool : null;
    private static final Computing COMPUTING = ON ? INSIDE.computing : null;

    HandOff() {
        Carriers.use(POOL);
    }

    /** True if fibers are handed over. */
    public static boolean isOn() {
        return ON;
    }

    /** True if the program opened java.lang for the hand-off, and did not turn it off. */
    static boolean isExpected() {
        return Object.class.getModule().isOpen("java.lang", HandOff.class.getModule()) && Settings.flag(HAND_OFF, true);
    }

    @Override
    public void wake(Thread thread, Schedulable waker) {
        Way way;
        try {
            way = tryToWake(thread, waker);
        } catch (OutOfMemoryError noRoom) { // nothing was changed yet; unpark waits for memory
            way = Way.NOT;
        }
        if (way == Way.NOT) {
            LockSupport.unpark(thread);
            SchedulerMonitor.remindOutside();
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
        /** Not woken. */
        NOT,
        /** Submitted as the JDK does, with a signal if the carrier's queue seems empty. */
        SUBMITTED,
        /** Submitted lazily. */
        HANDED_OVER
    }

    /**
     * Wakes the thread if invariant 1 allows a hand-over; else does nothing. The waker runs on
     * the current thread.
     */
    static Way tryToWake(Thread thread, Schedulable waker) {
        if (!ON || waker == null || !thread.isVirtual() || SCHEDULER.get(thread) != POOL || SCHEDULER.get(Thread.currentThread()) != POOL) {
            return Way.NOT;
        }
        boolean lazy = !waker.hasHandedOver() || Fault.HAND_OFF_TWICE_BETWEEN_PARKS.isSeeded();
        Resumption resumption = resumption(lazy); // may fail for lack of memory, so before the CAS
        if (resumption == null || !STATE.compareAndSet(thread, PARKED, UNPARKED)) {
            return Way.NOT;
        }
        waker.handsOver();
        submit(thread, resumption);
        if (!lazy) {
            return Way.SUBMITTED;
        }
        SchedulerMonitor.remind();
        return Way.HANDED_OVER;
    }

    /**
     * True if a fiber may wait for a carrier that does not come: as an external submission, or in the queue
     * of a carrier that stays busy. A fiber in these queues is not stuck if they are seen empty once.
     */
    @Override
    public boolean mayBeStranded() {
        if (POOL.hasQueuedSubmissions()) {
            return true;
        }
        for (int polls = 0; polls < POLLS; polls++) {
            if (POOL.getQueuedTaskCount() == 0) {
                return false;
            }
            Thread.onSpinWait();
        }
        return true;
    }

    @Override
    public int submissions() {
        return POOL.getQueuedSubmissionCount();
    }

    @Override
    public int computing(boolean waits, long elapsed) {
        return COMPUTING.count(elapsed);
    }

    @Override
    public void resumed() {}

    /** Null if there is no memory for it. The caller then uses {@code unpark}, which waits until there is. */
    private static Resumption resumption(boolean lazy) {
        try {
            return new Resumption(lazy);
        } catch (OutOfMemoryError noRoom) {
            return null;
        }
    }

    // The last argument makes the JDK wait for memory and retry, so that this cannot fail after the state was
    // changed.
    private static void submit(Thread target, Executor how) {
        try {
            SUBMIT.invokeExact(target, how, true);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** The private parts of virtual threads that are used here. */
    private record Inside(MethodHandle submit, VarHandle state, VarHandle scheduler, int parked, int unparked,
            ForkJoinPool pool, Computing computing) {

        /**
         * False with {@code -XX:-VMContinuations}, where a virtual thread is a platform thread in disguise,
         * of another class.
         */
        private static boolean isUsual() throws ClassNotFoundException {
            return Class.forName("java.lang.VirtualThread").isInstance(Thread.ofVirtual().unstarted(() -> {}));
        }

        /** Null if the class is closed, or does not look as expected. */
        static Inside open() {
            try {
                Class<?> c = Class.forName("java.lang.VirtualThread");
                MethodHandles.Lookup in = MethodHandles.privateLookupIn(c, MethodHandles.lookup());
                ForkJoinPool pool = (ForkJoinPool) in.findStaticGetter(c, "DEFAULT_SCHEDULER", ForkJoinPool.class).invoke();
                Computing computing = Computing.of(pool);
                return !isUsual() || computing == null ? null : new Inside(
                        in.findVirtual(c, "submitRunContinuation", MethodType.methodType(void.class, Executor.class, boolean.class))
                                .asType(MethodType.methodType(void.class, Thread.class, Executor.class, boolean.class)),
                        in.findVarHandle(c, "state", int.class).withInvokeBehavior(),
                        in.findVarHandle(c, "scheduler", Executor.class).withInvokeBehavior(),
                        (int) in.findStaticGetter(c, "PARKED", int.class).invoke(),
                        (int) in.findStaticGetter(c, "UNPARKED", int.class).invoke(),
                        pool, computing);
            } catch (Throwable closed) {
                return null;
            }
        }
    }

    /**
     * A fiber to run, as a task of the pool, and how to submit it. It never counts as done: no thread joins
     * it, and that saves a CAS.
     */
    private static final class Resumption extends ForkJoinTask<Void> implements Executor {
        private static final long serialVersionUID = 1L;
        private final boolean lazy;
        private transient Runnable resume;

        Resumption(boolean lazy) {
            this.lazy = lazy;
        }

        @Override
        public void execute(Runnable resume) {
            this.resume = resume;
            try {
                if (lazy) {
                    POOL.lazySubmit(this);
                } else {
                    POOL.execute(this);
                }
            } catch (RejectedExecutionException full) { // there was no memory for a longer queue
                POOL.externalSubmit(this);
            }
        }

        @Override
        protected boolean exec() {
            boolean due = Computing.nextResumption() % RESUMPTIONS_BETWEEN_POLLS == 0;
            resume.run();
            boolean requested = SchedulerMonitor.takePollRequest();
            if ((due || requested) && !Fault.NO_CARRIER_POLLS_SUBMISSIONS.isSeeded()) {
                takeIn();
                if (requested && Carriers.added() > 0) {
                    takeOver();
                }
            }
            return false;
        }

        /**
         * Moves up to {@value #SHARE} tasks of other carriers to the end of this carrier's queue. The JDK takes
         * from others only if the own queue is empty, so its tasks are taken out meanwhile.
         */
        private static void takeOver() {
            int own = getQueuedTaskCount();
            if (own > BATCH) {
                return;
            }
            ForkJoinTask<?>[] tasks;
            try {
                tasks = new ForkJoinTask<?>[own + SHARE];
            } catch (OutOfMemoryError noRoom) {
                return;
            }
            int n = 0;
            for (ForkJoinTask<?> t; n < own && (t = pollNextLocalTask()) != null; n++) {
                tasks[n] = t;
            }
            for (ForkJoinTask<?> t; n < tasks.length && (t = pollTask()) != null; n++) {
                tasks[n] = t;
            }
            for (int i = 0; i < n; i++) {
                takeIn(tasks[i]);
            }
        }

        private static void takeIn() {
            for (int left = BATCH; left > 0; left--) {
                ForkJoinTask<?> task = pollSubmission();
                if (task == null || !takeIn(task)) {
                    return;
                }
            }
            SchedulerMonitor.requestPoll();
        }

        /**
         * Adds the task to the end of this carrier's queue and returns true. If there is no room, runs it at
         * once and returns false.
         */
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
                r.exec(); // invoke would wait until the task counts as done, which it never does
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
