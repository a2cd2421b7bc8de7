package magnetar.stress;

import static org.openjdk.jcstress.annotations.Expect.ACCEPTABLE;
import static org.openjdk.jcstress.annotations.Expect.FORBIDDEN;

import java.util.concurrent.atomic.AtomicInteger;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;
import org.openjdk.jcstress.infra.results.I_Result;

/**
 * Controls: the same claims about code with a defect. Each of these has to fail, or the others prove nothing.
 */
public final class Controls {
    private Controls() {}

    /** Makes the defect easy to see, even on a busy machine. */
    private static void hesitate() {
        for (int i = 0; i < 10; i++) {
            Thread.onSpinWait();
        }
    }

    /** Hesitates for longer, until the other actor is there. So they meet, and often again in the next round. */
    private static void hesitateUntil(AtomicInteger count, int expected) {
        for (int i = 0; i < 1_000 && count.get() != expected; i++) {
            Thread.onSpinWait();
        }
    }

    /** READY is published before the result. */
    @JCStressTest
    @State
    @Outcome(id = {"-1", "1"}, expect = ACCEPTABLE, desc = "Not ready, or ready with its result.")
    @Outcome(id = "0", expect = FORBIDDEN, desc = "Ready, and the result is missing.")
    public static class ReadyBeforeResult {
        private Object result;
        private volatile boolean ready;

        @Actor
        public void event() {
            ready = true;
            hesitate();
            result = "result";
        }

        @Actor
        public void owner(I_Result r) {
            r.r1 = ready ? result == null ? 0 : 1 : -1;
        }
    }

    /** A box is handed over before it is filled. */
    @JCStressTest
    @State
    @Outcome(id = {"-1", "1"}, expect = ACCEPTABLE, desc = "Nothing, or the box and its content.")
    @Outcome(id = "0", expect = FORBIDDEN, desc = "The box without its content.")
    public static class EmptyBox {
        private volatile Channels.Box handed;

        @Actor
        public void sender() {
            Channels.Box box = new Channels.Box();
            handed = box;
            hesitate();
            box.content = 1;
        }

        @Actor
        public void receiver(I_Result r) {
            Channels.Box box = handed;
            r.r1 = box == null ? -1 : box.content;
        }
    }

    /** Two crossing selects take the two claims in no order, and release the first if the second is gone. */
    @JCStressTest
    @State
    @Outcome(id = {"1, 0", "0, 1"}, expect = ACCEPTABLE, desc = "One pairs.")
    @Outcome(expect = FORBIDDEN, desc = "Both, or none.")
    public static class UnorderedPairs {
        private final AtomicInteger a = new AtomicInteger();
        private final AtomicInteger b = new AtomicInteger();

        @Actor
        public void first(II_Result r) {
            r.r1 = pair(a, b);
        }

        @Actor
        public void second(II_Result r) {
            r.r2 = pair(b, a);
        }

        private static int pair(AtomicInteger own, AtomicInteger peer) {
            if (!own.compareAndSet(0, 1)) {
                return 0;
            }
            hesitateUntil(peer, 1);
            if (!peer.compareAndSet(0, 1)) {
                own.set(0);
                return 0;
            }
            return 1;
        }
    }

    /** A wait that ends by time without taking the claim. */
    @JCStressTest
    @State
    @Outcome(id = {"1, 1", "0, 0"}, expect = ACCEPTABLE, desc = "The event and the wait agree.")
    @Outcome(expect = FORBIDDEN, desc = "Lost, or made up.")
    public static class ExpiryWithoutClaim {
        private final AtomicInteger claimed = new AtomicInteger();

        @Actor
        public void event(II_Result r) {
            r.r1 = claimed.compareAndSet(0, 1) ? 1 : 0;
        }

        @Actor
        public void owner(II_Result r) {
            r.r2 = claimed.get(); // and leaves
        }
    }

    /** Two takes race to be the first of an unused channel, and each takes the place without a CAS or a lock. */
    @JCStressTest
    @State
    @Outcome(id = "2", expect = ACCEPTABLE, desc = "Both wait.")
    @Outcome(expect = FORBIDDEN, desc = "A take was forgotten.")
    public static class FirstTakersWithoutLock {
        private final AtomicInteger looked = new AtomicInteger();
        private volatile Object waiters;

        private void take() {
            boolean none = waiters == null;
            looked.incrementAndGet();
            hesitateUntil(looked, 2);
            waiters = none ? "one" : "two";
        }

        @Actor
        public void first() {
            take();
        }

        @Actor
        public void second() {
            take();
        }

        @Arbiter
        public void rest(I_Result r) {
            r.r1 = waiters.equals("two") ? 2 : 1;
        }
    }

    /** A close that checks for waiting takers before it marks the channel closed. */
    @JCStressTest
    @State
    @Outcome(id = {"1, 0", "0, 1"}, expect = ACCEPTABLE, desc = "The take ended once.")
    @Outcome(expect = FORBIDDEN, desc = "Never, or twice.")
    public static class CloseTooLate {
        private volatile boolean closed;
        private final AtomicInteger waiting = new AtomicInteger();
        private volatile int released;

        @Actor
        public void closer() {
            released = waiting.getAndSet(0);
            closed = true;
        }

        @Actor
        public void taker(II_Result r) {
            if (closed) {
                r.r1 = 1;
            } else {
                waiting.incrementAndGet();
            }
        }

        @Arbiter
        public void rest(II_Result r) {
            r.r2 = released;
        }
    }

    /** The interrupt comes before its cause. */
    @JCStressTest
    @State
    @Outcome(id = {"-1", "1"}, expect = ACCEPTABLE, desc = "Not interrupted, or with a cause.")
    @Outcome(id = "0", expect = FORBIDDEN, desc = "Interrupted without a cause.")
    public static class InterruptBeforeCause {
        private final Thread thread = Thread.ofPlatform().unstarted(() -> {});
        private volatile Object cause;

        @Actor
        public void cancel() {
            thread.interrupt();
            hesitate();
            cause = "why";
        }

        @Actor
        public void look(I_Result r) {
            r.r1 = thread.isInterrupted() ? cause == null ? 0 : 1 : -1;
        }
    }

    /** An owner that checks for messages, and registers its waiter, in two steps. */
    @JCStressTest
    @State
    @Outcome(id = {"0, 0", "1, 1"}, expect = ACCEPTABLE, desc = "It does not wait, or is woken.")
    @Outcome(expect = FORBIDDEN, desc = "It waits though there is a message.")
    public static class WaitWithoutLook {
        private final AtomicInteger messages = new AtomicInteger();
        private volatile boolean waits;
        private volatile boolean woken;

        @Actor
        public void sender() {
            messages.incrementAndGet();
            woken = waits;
        }

        @Actor
        public void owner(II_Result r) {
            if (messages.get() == 0) {
                hesitate();
                waits = true;
                r.r1 = 1;
            }
        }

        @Arbiter
        public void rest(II_Result r) {
            r.r2 = woken ? 1 : 0;
        }
    }

    /** A close that comes between a sender's check and its message. */
    @JCStressTest
    @State
    @Outcome(id = {"0, 0", "-1, 0"}, expect = ACCEPTABLE, desc = "Taken and dropped, or refused.")
    @Outcome(expect = FORBIDDEN, desc = "A closed mailbox holds a message.")
    public static class PushWithoutLook {
        private volatile boolean closed;
        private final AtomicInteger messages = new AtomicInteger();

        @Actor
        public void sender(II_Result r) {
            if (closed) {
                r.r1 = -1;
            } else {
                hesitate();
                messages.incrementAndGet();
            }
        }

        @Actor
        public void closer() {
            closed = true;
            messages.set(0);
        }

        @Arbiter
        public void rest(II_Result r) {
            r.r2 = messages.get();
        }
    }
}
