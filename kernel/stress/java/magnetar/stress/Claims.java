package magnetar.stress;

import static org.openjdk.jcstress.annotations.Expect.ACCEPTABLE;
import static org.openjdk.jcstress.annotations.Expect.FORBIDDEN;

import magnetar.kernel.park.Parked;
import magnetar.kernel.park.Peek;
import magnetar.kernel.park.Waiter;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;
import org.openjdk.jcstress.infra.results.I_Result;

/** The claim of a waiter: one thread takes it, and the result is visible when the waiter is ready. */
public final class Claims {
    private Claims() {}

    /** The result is published before READY is. */
    @JCStressTest
    @State
    @Outcome(id = "-1", expect = ACCEPTABLE, desc = "Not ready yet.")
    @Outcome(id = "1", expect = ACCEPTABLE, desc = "Ready, with its result.")
    @Outcome(id = "0", expect = FORBIDDEN, desc = "Ready, and the result is missing.")
    public static class ResultBeforeReady {
        private final Parked waiter = Peek.waiter();

        @Actor
        public void event() {
            waiter.claim();
            waiter.complete("source", "result");
        }

        @Actor
        public void owner(I_Result r) {
            r.r1 = Peek.isReady(waiter) ? waiter.result() == null || waiter.source() == null ? 0 : 1 : -1;
        }
    }

    /** Two selects that cross claim each other: exactly one succeeds. */
    @JCStressTest
    @State
    @Outcome(id = {"1, 0", "0, 1"}, expect = ACCEPTABLE, desc = "One pairs.")
    @Outcome(expect = FORBIDDEN, desc = "Both, or none.")
    public static class CrossingPairs {
        private final Parked a = Peek.waiter();
        private final Parked b = Peek.waiter();

        @Actor
        public void first(II_Result r) {
            r.r1 = Waiter.pair(a, b) == Waiter.Pairing.PAIRED ? 1 : 0;
        }

        @Actor
        public void second(II_Result r) {
            r.r2 = Waiter.pair(b, a) == Waiter.Pairing.PAIRED ? 1 : 0;
        }
    }

    /** A pair races a plain claim of its other half: the claim waits for TRYING, and CLAIMED is final. */
    @JCStressTest
    @State
    @Outcome(id = {"1, 0", "0, 1"}, expect = ACCEPTABLE, desc = "One has it.")
    @Outcome(expect = FORBIDDEN, desc = "Both, or none.")
    public static class PairAgainstClaim {
        private final Parked a = Peek.waiter();
        private final Parked b = Peek.waiter();

        @Actor
        public void pair(II_Result r) {
            r.r1 = Waiter.pair(b, a) == Waiter.Pairing.PAIRED ? 1 : 0;
        }

        @Actor
        public void claim(II_Result r) {
            r.r2 = b.claim() ? 1 : 0;
        }
    }

    /**
     * A time-out races an event: the wait returns the event's result, or the event finds the waiter claimed.
     */
    @JCStressTest
    @State
    @Outcome(id = {"1, 1", "0, 0"}, expect = ACCEPTABLE, desc = "The event and the wait agree.")
    @Outcome(expect = FORBIDDEN, desc = "Lost, or made up.")
    public static class ExpiryAgainstDelivery {
        private final Parked waiter = Peek.waiter();

        @Actor
        public void event(II_Result r) {
            if (waiter.claim()) {
                waiter.complete(null, 7);
                r.r1 = 1;
            }
        }

        @Actor
        public void owner(II_Result r) {
            waiter.expire();
            try {
                r.r2 = waiter.await() && waiter.result().equals(7) ? 1 : 0;
            } catch (InterruptedException e) {
                r.r2 = -1;
            }
        }
    }
}
