package magnetar.kernel.park;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.Spin;
import magnetar.kernel.sched.Fault;

/**
 * One party that waits for several events, exactly one of which can claim it.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The claim moves to CLAIMED once, and never back. Only the thread that made that move completes the
 *       waiter. If that is the waiting thread itself, it abandons the wait.
 *   <li>TRYING is a short lock on the claim. Its holder runs no user code, takes no channel lock and does not
 *       park. It ends in OPEN (rolled back) or CLAIMED (committed).
 *   <li>A thread that holds one TRYING claim waits only for claims with a higher id. So a chain of waiting
 *       threads ascends in ids and ends at a thread that makes progress: two selects that cross on two
 *       channels cannot deadlock.
 *   <li>The result is written before READY is, and READY before the waiter is woken.
 * </ol>
 *
 * <p>Source: the three-state claim of Reagents and Go's {@code sudog.isSelect}. Go locks all channels of a
 * select in address order. Here no select holds two channel locks, so the claims are ordered instead.
 * Rejected: back-off with retry for crossing selects, which needs a second argument to exclude livelock.
 */
public abstract class Waiter {
    private static final int OPEN = 0;
    private static final int TRYING = 1;
    private static final int CLAIMED = 2;
    private static final int READY = 3;

    private static final VarHandle STATE;

    static {
        try {
            STATE = MethodHandles.lookup().findVarHandle(Waiter.class, "state", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    // Set or read by any thread.
    private volatile int state;

    // Only accessed by the thread that waits: the claim was taken by its own operation.
    private boolean mine;

    /** The order in which two claims are taken together; unique among waiters that can meet. */
    public abstract long id();

    /**
     * Publishes the result of the claimed wait and wakes the waiter. Called once, by the claimer, outside of
     * all locks.
     *
     * @param source what completed: the queue node of the operation
     * @param result what it yielded
     */
    public abstract void complete(Object source, Object result);

    /** True for waiters that count against the limit of pending callbacks on a channel. */
    public boolean isCallback() {
        return false;
    }

    /** What waits, for dumps: a thread, or null. */
    public Thread thread() {
        return null;
    }

    /** True until the claim is taken. */
    public boolean isUnclaimed() {
        return state <= TRYING;
    }

    /** True once the result is published. */
    protected final boolean isReady() {
        return state == READY;
    }

    /** Publishes the result and all that was written before. */
    protected final void setReady() {
        state = READY;
    }

    /** Changes the state by CAS, where another thread may change it too. */
    private boolean move(int from, int to) {
        Simulated.switchPoint();
        return STATE.compareAndSet(this, from, to);
    }

    /** Takes the claim; false if it was taken before. */
    public boolean claim() {
        if (move(OPEN, CLAIMED) || Fault.CLAIM_IS_TAKEN_TWICE.isSeeded()) {
            return true;
        }
        return acquire() && commitAcquired();
    }

    /** Takes the claim for an operation of the waiting thread itself, which it is about to do. */
    public final boolean claimMine() {
        mine = claim();
        return mine;
    }

    /** True if {@link #claimMine} took the claim. */
    public final boolean isMine() {
        return mine;
    }

    private boolean commitAcquired() {
        commit();
        return true;
    }

    /** Locks the claim until {@link #commit} or {@link #release}; false if it was taken before. */
    public boolean acquire() {
        for (int turns = 0; ; turns = Spin.turn(turns)) {
            int s = state;
            if (s >= CLAIMED) {
                return false;
            }
            if (s == OPEN && move(OPEN, TRYING)) {
                return true;
            }
        }
    }

    /** Turns the locked claim into a taken one. */
    public void commit() {
        state = CLAIMED;
    }

    /** Unlocks the claim without taking it. */
    public void release() {
        state = OPEN;
    }

    /** How an attempt to claim two waiters together ended. */
    public enum Pairing {
        /** Both are claimed by the caller. */
        PAIRED,
        /** Another thread had claimed the caller's own waiter. */
        OWN_GONE,
        /** Another thread had claimed the peer. */
        PEER_GONE
    }

    /**
     * Claims the peer, and the own waiter with it, both or none.
     *
     * @param own the caller's waiter if others can see it already, else null
     */
    public static Pairing pair(Waiter own, Waiter peer) {
        if (own == null) {
            return peer.claim() ? Pairing.PAIRED : Pairing.PEER_GONE;
        }
        boolean ownFirst = own.id() < peer.id() || Fault.CLAIMS_ARE_LOCKED_IN_NO_ORDER.isSeeded();
        return ownFirst ? pairInOrder(own, peer, own) : pairInOrder(peer, own, own);
    }

    private static Pairing pairInOrder(Waiter low, Waiter high, Waiter own) {
        if (!low.acquire()) {
            return low == own ? Pairing.OWN_GONE : Pairing.PEER_GONE;
        }
        if (!high.acquire() && !Fault.PAIR_IS_CLAIMED_BY_ITS_HALF.isSeeded()) {
            low.release();
            return high == own ? Pairing.OWN_GONE : Pairing.PEER_GONE;
        }
        high.commit();
        low.commit();
        return Pairing.PAIRED;
    }
}
