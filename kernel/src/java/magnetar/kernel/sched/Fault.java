package magnetar.kernel.sched;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MutableCallSite;

/**
 * Fault points: places where the kernel does something wrong while a test has seeded the defect of that
 * name. {@code kernel/mutants/faults.edn} names the check that must find it. This class is in the lowest
 * package, so that every package can use it.
 *
 * <p>Invariants:
 * <ol>
 *   <li>While no defect is seeded, the compiler sees a constant null, and a fault point folds away.
 *   <li>{@link #isSeeded} allocates nothing, since a process may be ending because memory has run out. So
 *       defects are not named by strings: the JVM allocates a string constant when its line first runs.
 * </ol>
 */
public enum Fault {
    CLAIM_IS_TAKEN_TWICE,
    CLAIMS_ARE_LOCKED_IN_NO_ORDER,
    PAIR_IS_CLAIMED_BY_ITS_HALF,
    TIME_ENDS_WAIT_WITHOUT_CLAIM,
    WAIT_IS_READ_ONCE,
    INTERRUPT_COMES_BEFORE_CAUSE,
    FIBER_NEVER_YIELDS,
    ABANDONED_FIBER_IS_HELD,
    SCOPE_ENDS_BEFORE_ITS_FORKS,
    TAKE_LOOKS_AND_WAITS_IN_TWO_STEPS,
    TAKE_SKIPS_CHECK_UNDER_LOCK,
    WAITER_LEAVES_CHANNEL_WITHOUT_LOCK,
    SECOND_WAITER_REPLACES_FIRST,
    MESSAGE_THAT_LOST_ITS_RACE_IS_LOST,
    OWNER_IS_WOKEN_WITHOUT_CLAIM,
    OWNER_LOOKS_AND_WAITS_IN_TWO_STEPS,
    LINK_IGNORES_DEATH,
    LINK_HAS_ONE_SIDE,
    ENDED_MONITOR_FIRES,
    MONITOR_IGNORES_DEATH,
    ALIAS_IS_CHECKED_BEFORE_LOCK,
    NAME_OUTLIVES_PROCESS,
    TRAPPING_IS_CHECKED_BEFORE_LOCK,
    PROCESS_IS_DEAD_BEFORE_CLEAN_UP,
    KILL_BEFORE_START_SENDS_NO_NOTICE,
    PROCESS_IDLES_WITH_MESSAGE,
    CALL_IGNORES_DEATH,
    SECOND_ANSWER_COMES,
    CALL_WAITS_TOO_LONG,
    LATE_ANSWER_COMES,
    ANY_MESSAGE_IS_THE_ANSWER,
    CALL_GIVEN_AWAY_IS_OWED,
    LATE_TIMER_WILL_DO,
    EARLIER_TIMER_WAKES_NO_WHEEL,
    HAND_OFF_TWICE_BETWEEN_PARKS,
    NO_CARRIER_POLLS_SUBMISSIONS,
    MONITOR_SLEEPS_ON,
    NO_FIBER_STEPS_ASIDE,
    NO_CARRIER_IS_ADDED,
    SIGNAL_OVERTAKES_DELAYED_ONE,
    STREAM_IS_HEARD_AFTER_ITS_END,
    REMOTE_LINK_IGNORES_DEATH,
    CROSSING_LINK_SURVIVES_UNLINK,
    LINK_OUTLIVES_CONNECTION,
    MONITOR_OUTLIVES_CONNECTION,
    REMOTE_MONITOR_FIRES_AGAIN;

    private static final MutableCallSite SEEDED = new MutableCallSite(MethodHandles.constant(Fault.class, null));
    private static final MethodHandle NAME = SEEDED.dynamicInvoker();

    static {
        seeded(); // links its call site
    }

    /** True while this defect is seeded. */
    public boolean isSeeded() {
        return seeded() == this;
    }

    /** Seeds a defect for the whole JVM, in place of the last one; null removes it. For tests. */
    public static void seed(Fault fault) {
        SEEDED.setTarget(MethodHandles.constant(Fault.class, fault));
        MutableCallSite.syncAll(new MutableCallSite[] {SEEDED});
    }

    private static Fault seeded() {
        try {
            return (Fault) NAME.invokeExact();
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }
}
