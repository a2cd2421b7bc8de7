package magnetar.stress;

import static org.openjdk.jcstress.annotations.Expect.ACCEPTABLE;
import static org.openjdk.jcstress.annotations.Expect.FORBIDDEN;

import java.util.concurrent.atomic.AtomicInteger;
import magnetar.kernel.channel.Buffer;
import magnetar.kernel.channel.Callback;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.channel.Port;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.III_Result;
import org.openjdk.jcstress.infra.results.II_Result;
import org.openjdk.jcstress.infra.results.I_Result;

/** Values on their way through a channel, against close and interrupt. */
public final class Channels {
    private Channels() {}

    static final class Box {
        int content;
    }

    /** The receiver sees after the take what the sender wrote before the put. */
    @JCStressTest
    @State
    @Outcome(id = "-1", expect = ACCEPTABLE, desc = "Nothing there yet.")
    @Outcome(id = "1", expect = ACCEPTABLE, desc = "The box and its content.")
    @Outcome(id = "0", expect = FORBIDDEN, desc = "The box without its content.")
    public static class HandOver {
        private final Channel<Box> channel = Channel.of(Buffer.fixed(1));

        @Actor
        public void sender() {
            Box box = new Box();
            box.content = 1;
            channel.sendNow(box);
        }

        @Actor
        public void receiver(I_Result r) {
            r.r1 = channel.receiveNow() instanceof Box box ? box.content : -1;
        }
    }

    /** An offer races a close: an accepted value is there, a refused one is not. */
    @JCStressTest
    @State
    @Outcome(id = {"1, 7", "0, 0"}, expect = ACCEPTABLE, desc = "Accepted and there, or refused and not.")
    @Outcome(expect = FORBIDDEN, desc = "Lost, or made up.")
    public static class CloseAgainstOffer {
        private final Channel<Integer> channel = Channel.of(Buffer.fixed(1));

        @Actor
        public void closer() {
            channel.close();
        }

        @Actor
        public void sender(II_Result r) {
            r.r1 = channel.sendNow(7) == Boolean.TRUE ? 1 : 0;
        }

        @Arbiter
        public void rest(II_Result r) {
            r.r2 = channel.receiveNow() instanceof Integer i ? i : 0;
        }
    }

    /** A poll races a close: the value is taken once, by the poll or afterwards. */
    @JCStressTest
    @State
    @Outcome(id = {"7, 0", "0, 7"}, expect = ACCEPTABLE, desc = "Once.")
    @Outcome(expect = FORBIDDEN, desc = "Lost, or twice.")
    public static class CloseAgainstPoll {
        private final Channel<Integer> channel = Channel.of(Buffer.fixed(1));

        public CloseAgainstPoll() {
            channel.trySend(7);
        }

        @Actor
        public void closer() {
            channel.close();
        }

        @Actor
        public void receiver(II_Result r) {
            r.r1 = channel.receiveNow() instanceof Integer i ? i : 0;
        }

        @Arbiter
        public void rest(II_Result r) {
            r.r2 = channel.receiveNow() instanceof Integer i ? i : 0;
        }
    }

    /** A waiting take races a close: it ends once, at once or by its callback. */
    @JCStressTest
    @State
    @Outcome(id = {"1, 0", "0, 1"}, expect = ACCEPTABLE, desc = "It ended once.")
    @Outcome(expect = FORBIDDEN, desc = "Never, or twice.")
    public static class CloseAgainstTake {
        private final Channel<Integer> channel = Channel.rendezvous();
        private volatile int called;

        @Actor
        public void closer() {
            channel.close();
        }

        @Actor
        public void taker(II_Result r) {
            r.r1 = channel.receiveAsync(new Callback(v -> called++, true)) == Port.PENDING ? 0 : 1;
        }

        @Arbiter
        public void rest(II_Result r) {
            r.r2 = called;
        }
    }

    /** A waiting put races a close: it is refused, or kept to be taken. */
    @JCStressTest
    @State
    @Outcome(id = {"0, 0, 0", "1, 7, 1"}, expect = ACCEPTABLE, desc = "Refused, or kept and answered when taken.")
    @Outcome(expect = FORBIDDEN, desc = "Lost, or made up.")
    public static class CloseAgainstPut {
        private final Channel<Integer> channel = Channel.rendezvous();
        private volatile int answered;

        @Actor
        public void closer() {
            channel.close();
        }

        @Actor
        public void putter(III_Result r) {
            r.r1 = channel.sendAsync((Object) 7, new Callback(v -> answered++, true)) == Port.PENDING ? 1 : 0;
        }

        @Arbiter
        public void rest(III_Result r) {
            r.r2 = channel.receiveNow() instanceof Integer i ? i : 0;
            r.r3 = answered;
        }
    }

    /** A put and a take meet: one value, once. */
    @JCStressTest
    @State
    @Outcome(id = "7, 1", expect = ACCEPTABLE, desc = "They met.")
    @Outcome(expect = FORBIDDEN, desc = "They missed each other, or met twice.")
    public static class PutAgainstTake {
        private final Channel<Integer> channel = Channel.rendezvous();
        private volatile int taken;
        private volatile int answered;

        @Actor
        public void putter() {
            if (channel.sendAsync((Object) 7, new Callback(v -> answered++, true)) == Boolean.TRUE) {
                answered++;
            }
        }

        @Actor
        public void taker() {
            if (channel.receiveAsync(new Callback(v -> taken += (Integer) v, true)) instanceof Integer i) {
                taken += i;
            }
        }

        @Arbiter
        public void rest(II_Result r) {
            r.r1 = taken;
            r.r2 = answered;
        }
    }

    /** Two takes race to be the first of an unused channel, where the second makes its queue. */
    @JCStressTest
    @State
    @Outcome(id = "2, 2", expect = ACCEPTABLE, desc = "Both wait, and a close ends both.")
    @Outcome(expect = FORBIDDEN, desc = "A take was forgotten, or ended twice.")
    public static class FirstTakers {
        private final Channel<Integer> channel = Channel.rendezvous();
        private final AtomicInteger ended = new AtomicInteger();

        private void take() {
            channel.receiveAsync(new Callback(v -> ended.incrementAndGet(), true));
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
        public void rest(II_Result r) {
            r.r1 = channel.info().takers().size();
            channel.close();
            r.r2 = ended.get();
        }
    }

    /** An interrupt races a delivery: the value arrives, or the sender keeps it. No waiter is left. */
    @JCStressTest
    @State
    @Outcome(id = {"7, 1, 0", "-1, 0, 0"}, expect = ACCEPTABLE, desc = "Delivered, or not sent.")
    @Outcome(expect = FORBIDDEN, desc = "Lost, doubled, or a ghost.")
    public static class InterruptAgainstDelivery {
        private final Channel<Integer> channel = Channel.rendezvous();

        @Actor
        public void receiver(III_Result r) {
            Thread.currentThread().interrupt();
            try {
                r.r1 = channel.receive();
            } catch (InterruptedException e) {
                r.r1 = -1;
            }
            Thread.interrupted();
        }

        @Actor
        public void sender(III_Result r) {
            r.r2 = channel.sendNow(7) == Boolean.TRUE ? 1 : 0;
        }

        @Arbiter
        public void rest(III_Result r) {
            r.r3 = channel.info().takers().size();
        }
    }
}
