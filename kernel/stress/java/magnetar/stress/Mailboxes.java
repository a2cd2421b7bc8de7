package magnetar.stress;

import static org.openjdk.jcstress.annotations.Expect.ACCEPTABLE;
import static org.openjdk.jcstress.annotations.Expect.FORBIDDEN;

import magnetar.kernel.park.Parked;
import magnetar.kernel.park.Peek;
import magnetar.kernel.process.Box;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.III_Result;
import org.openjdk.jcstress.infra.results.II_Result;
import org.openjdk.jcstress.infra.results.I_Result;

/** A mailbox between senders, an owner that begins or stops to wait, and a close. */
public final class Mailboxes {
    private Mailboxes() {}

    /** A message races an owner that is about to wait: the owner is woken, or sees the message. */
    @JCStressTest
    @State
    @Outcome(id = {"1, 1, 11", "0, 0, 1"}, expect = ACCEPTABLE, desc = "Woken, or seen.")
    @Outcome(expect = FORBIDDEN, desc = "Lost, or twice.")
    public static class PushAgainstWait {
        private final Box box = Box.open();
        private final Parked owner = Peek.waiter();

        @Actor
        public void sender(III_Result r) {
            r.r1 = box.push("message");
        }

        @Actor
        public void owner(III_Result r) {
            r.r2 = box.enlist(owner) ? 1 : 0;
        }

        @Arbiter
        public void rest(III_Result r) {
            r.r3 = 10 * (Peek.isReady(owner) ? 1 : 0) + box.drain();
        }
    }

    /** The same with a bound. */
    @JCStressTest
    @State
    @Outcome(id = {"1, 1, 11", "0, 0, 1"}, expect = ACCEPTABLE, desc = "Woken, or seen.")
    @Outcome(expect = FORBIDDEN, desc = "Lost, or twice.")
    public static class BoundedPushAgainstWait {
        private final Box box = Box.bounded("BLOCK");
        private final Parked owner = Peek.waiter();

        @Actor
        public void sender(III_Result r) {
            r.r1 = box.push("message");
        }

        @Actor
        public void owner(III_Result r) {
            r.r2 = box.enlist(owner) ? 1 : 0;
        }

        @Arbiter
        public void rest(III_Result r) {
            r.r3 = 10 * (Peek.isReady(owner) ? 1 : 0) + box.drain();
        }
    }

    /** Two messages race to a waiting owner: it is woken once, and both are there. */
    @JCStressTest
    @State
    @Outcome(id = {"1, 0, 12", "0, 1, 12"}, expect = ACCEPTABLE, desc = "One wakes, both are there.")
    @Outcome(expect = FORBIDDEN, desc = "Lost, or woken twice.")
    public static class TwoAgainstWaiting {
        private final Box box = Box.open();
        private final Parked owner = Peek.waiter();

        public TwoAgainstWaiting() {
            box.enlist(owner);
        }

        @Actor
        public void first(III_Result r) {
            r.r1 = box.push("message");
        }

        @Actor
        public void second(III_Result r) {
            r.r2 = box.push("message");
        }

        @Arbiter
        public void rest(III_Result r) {
            r.r3 = 10 * (Peek.isReady(owner) ? 1 : 0) + box.drain();
        }
    }

    /** A message races the end of the owner's wait: one of them has the claim, and the message is there. */
    @JCStressTest
    @State
    @Outcome(id = {"1, 0, 1", "0, 1, 1"}, expect = ACCEPTABLE, desc = "Woken or given up, and the message is there.")
    @Outcome(expect = FORBIDDEN, desc = "Both, none, or lost.")
    public static class PushAgainstGivingUp {
        private final Box box = Box.open();
        private final Parked owner = Peek.waiter();

        public PushAgainstGivingUp() {
            box.enlist(owner);
        }

        @Actor
        public void sender(III_Result r) {
            r.r1 = box.push("message");
        }

        @Actor
        public void owner(III_Result r) {
            r.r2 = owner.claim() ? 1 : 0;
            box.delist(owner);
        }

        @Arbiter
        public void rest(III_Result r) {
            r.r3 = box.drain();
        }
    }

    /** A message races a close: a message that is too late is refused, and a closed mailbox is empty. */
    @JCStressTest
    @State
    @Outcome(id = {"0, 0", "-1, 0"}, expect = ACCEPTABLE, desc = "Taken and dropped, or refused.")
    @Outcome(expect = FORBIDDEN, desc = "A closed mailbox holds a message.")
    public static class PushAgainstClose {
        private final Box box = Box.open();

        @Actor
        public void sender(II_Result r) {
            r.r1 = box.push("message");
        }

        @Actor
        public void closer() {
            box.close();
        }

        @Arbiter
        public void rest(II_Result r) {
            r.r2 = box.drain();
        }
    }

    /** An owner that is about to wait races a close: it does not wait, or is woken. */
    @JCStressTest
    @State
    @Outcome(id = {"0, 0", "1, 1"}, expect = ACCEPTABLE, desc = "It does not wait, or is woken.")
    @Outcome(expect = FORBIDDEN, desc = "It waits for ever.")
    public static class WaitAgainstClose {
        private final Box box = Box.open();
        private final Parked owner = Peek.waiter();

        @Actor
        public void owner(II_Result r) {
            r.r1 = box.enlist(owner) ? 1 : 0;
        }

        @Actor
        public void closer() {
            box.close();
        }

        @Arbiter
        public void rest(II_Result r) {
            r.r2 = Peek.isReady(owner) ? 1 : 0;
        }
    }

    /** Two messages of one sender race the owner that takes them: each comes once, and in order. */
    @JCStressTest
    @State
    @Outcome(id = {"0, 12", "1, 2", "12, 0"}, expect = ACCEPTABLE, desc = "In order, once each.")
    @Outcome(expect = FORBIDDEN, desc = "Lost, doubled or out of order.")
    public static class DrainAgainstPushes {
        private final Box box = Box.open();

        @Actor
        public void sender() {
            box.push(1);
            box.push(2);
        }

        @Actor
        public void owner(II_Result r) {
            r.r1 = box.digits();
        }

        @Arbiter
        public void rest(II_Result r) {
            r.r2 = box.digits();
        }
    }

    /**
     * A thread counts the waiting messages while they are taken and renumbered. The count was true at some
     * instant.
     */
    @JCStressTest
    @State
    @Outcome(id = {"0", "1"}, expect = ACCEPTABLE, desc = "What there was at some instant.")
    @Outcome(expect = FORBIDDEN, desc = "A number of something else.")
    public static class CountAgainstDrain {
        private final Box box = Box.open();

        public CountAgainstDrain() {
            for (int i = 0; i < 5; i++) {
                box.push("older");
            }
            box.drain();
            box.push("message");
        }

        @Actor
        public void owner() {
            box.drain();
            box.push("message");
        }

        @Actor
        public void looker(I_Result r) {
            r.r1 = box.waiting();
        }
    }

    static final class Letter {
        int content;
    }

    /** The owner reads after the receive what the sender wrote before the send. */
    @JCStressTest
    @State
    @Outcome(id = {"-1", "1"}, expect = ACCEPTABLE, desc = "Nothing there yet, or the letter and its content.")
    @Outcome(id = "0", expect = FORBIDDEN, desc = "The letter without its content.")
    public static class HandOver {
        private final Box box = Box.open();

        @Actor
        public void sender() {
            Letter letter = new Letter();
            letter.content = 1;
            box.push(letter);
        }

        @Actor
        public void owner(I_Result r) {
            r.r1 = box.poll() instanceof Letter letter ? letter.content : -1;
        }
    }

    /**
     * A sender that is about to wait for room races the owner that makes room: it does not wait, or is woken.
     */
    @JCStressTest
    @State
    @Outcome(id = {"0, 0", "1, 1"}, expect = ACCEPTABLE, desc = "It does not wait, or is woken.")
    @Outcome(expect = FORBIDDEN, desc = "It waits though there is room.")
    public static class RoomAgainstWait {
        private final Box box = Box.bounded("BLOCK");
        private final Parked sender = Peek.waiter();

        public RoomAgainstWait() {
            box.push("message");
        }

        @Actor
        public void sender(II_Result r) {
            r.r1 = box.awaitRoom(sender) ? 1 : 0;
        }

        @Actor
        public void owner() {
            box.removeFirst();
        }

        @Arbiter
        public void rest(II_Result r) {
            r.r2 = Peek.isReady(sender) ? 1 : 0;
        }
    }
}
