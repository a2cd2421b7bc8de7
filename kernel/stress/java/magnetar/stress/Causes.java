package magnetar.stress;

import static org.openjdk.jcstress.annotations.Expect.ACCEPTABLE;
import static org.openjdk.jcstress.annotations.Expect.FORBIDDEN;

import magnetar.kernel.fiber.Cause;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.park.Peek;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.I_Result;

/** The cause of an interrupt is visible before the interrupt is. */
public final class Causes {
    private Causes() {}

    @JCStressTest
    @State
    @Outcome(id = "-1", expect = ACCEPTABLE, desc = "Not interrupted yet.")
    @Outcome(id = "1", expect = ACCEPTABLE, desc = "Interrupted, and the cause is there.")
    @Outcome(id = "0", expect = FORBIDDEN, desc = "Interrupted without a cause.")
    public static class CauseBeforeInterrupt {
        private static final Cause WHY = new Cause.Cancel("test");

        private final Thread thread = Thread.ofPlatform().unstarted(() -> {});
        private final Fiber fiber = Peek.fiber(thread);

        @Actor
        public void cancel() {
            fiber.cancel(WHY);
        }

        @Actor
        public void look(I_Result r) {
            r.r1 = thread.isInterrupted() ? fiber.cause() == null ? 0 : 1 : -1;
        }
    }
}
