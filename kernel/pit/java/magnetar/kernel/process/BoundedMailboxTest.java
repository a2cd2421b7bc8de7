package magnetar.kernel.process;

import static magnetar.kernel.process.Mail.from;
import static magnetar.kernel.process.Mail.list;
import static magnetar.kernel.process.Mail.push;
import static magnetar.kernel.process.Mail.remove;
import static magnetar.kernel.process.Mail.signal;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class BoundedMailboxTest {
    private static BoundedMailbox full(WhenFull policy) {
        BoundedMailbox m = new BoundedMailbox(3, policy);
        assertNull(push(m, 0, 1, 2));
        return m;
    }

    private static void holds(Mailbox m, int messages, int dropped) {
        assertEquals(messages, m.info().messages());
        assertEquals(dropped, m.info().dropped());
    }

    private static List<Object> drained(Mailbox m) {
        m.drain();
        return list(m);
    }

    @Test
    void aSignalKeepsItsContextAndOneWithoutIsNoLarger() {
        BoundedMailbox m = full(WhenFull.BLOCK);
        m.pushSignal(Node.of("in context", "context"));
        m.pushSignal(Node.of("without", null));
        m.drain();
        Node inContext = m.after(3);
        assertEquals(List.of("in context", "context", "without"), List.of(inContext.message, inContext.context(), inContext.next.message));
        assertNull(inContext.next.context());
        assertSame(signalled(), inContext.next.getClass());
        assertEquals(2, m.info().messages() - 3); // no bound applies to either
    }

    private static Class<?> signalled() {
        BoundedMailbox m = new BoundedMailbox(1, WhenFull.BLOCK);
        signal(m, "plain");
        return m.drain().getClass();
    }

    @ParameterizedTest
    @EnumSource(names = {"BLOCK", "FAIL", "DROP_NEW"})
    void oneThatIsFullTakesNoOrdinaryMessage(WhenFull policy) {
        BoundedMailbox m = full(policy);
        assertSame(Mailbox.FULL, push(m, 3));
        assertEquals(new MailboxInfo(3, 3, policy.name(), policy == WhenFull.DROP_NEW ? 1 : 0, 0), m.info());
        assertEquals(List.of(0, 1, 2), drained(m));
        assertSame(Mailbox.FULL, push(m, 4)); // messages in the list count
        remove(m, 1);
        assertNull(push(m, 5));
        assertSame(Mailbox.FULL, push(m, 6));
        assertEquals(List.of(0, 2, 5), drained(m));
        assertEquals(policy == WhenFull.DROP_NEW ? 3 : 0, m.info().dropped());
    }

    @ParameterizedTest
    @EnumSource
    void signalsAreAddedInAnyCaseAndCount(WhenFull policy) {
        BoundedMailbox m = full(policy);
        assertNull(signal(m, "down"));
        holds(m, 4, 0);
        assertEquals(List.of(0, 1, 2, "down"), drained(m));
        remove(m, 0);
        if (policy != WhenFull.DROP_OLD) {
            assertSame(Mailbox.FULL, push(m, 3)); // it still holds three
        }
        remove(m, "down");
        assertNull(push(m, 4));
        assertEquals(List.of(1, 2, 4), drained(m));
    }

    @Test
    void oneOfSignalsHasNoneToDrop() {
        BoundedMailbox m = new BoundedMailbox(1, WhenFull.DROP_OLD);
        signal(m, "down");
        signal(m, "exit");
        assertSame(Mailbox.FULL, push(m, 1));
        holds(m, 2, 1);
        m.drain();
        assertSame(Mailbox.FULL, push(m, 2));
        holds(m, 2, 2);
        remove(m, "down");
        remove(m, "exit");
        holds(m, 0, 2);
        assertNull(push(m, 3));
        assertEquals(List.of(3), drained(m));
    }

    @Test
    void theOldestOfTheInboxIsDropped() {
        BoundedMailbox m = full(WhenFull.DROP_OLD);
        assertNull(push(m, 3, 4));
        holds(m, 3, 2);
        assertEquals(List.of(2, 3, 4), drained(m));
        holds(m, 3, 2);
    }

    @Test
    void theOldestOrdinaryOneOfTheInboxIsDroppedBetweenSignals() {
        BoundedMailbox m = new BoundedMailbox(3, WhenFull.DROP_OLD);
        signal(m, "down");
        push(m, 0, 1, 2);
        holds(m, 3, 1);
        assertEquals(List.of("down", 1, 2), drained(m));
    }

    @Test
    void theOldestOfTheListIsOwedAndDroppedBeforeTheNextLook() {
        BoundedMailbox m = full(WhenFull.DROP_OLD);
        m.drain();
        assertNull(push(m, 3, 4));
        holds(m, 3, 2);
        assertEquals(List.of(0, 1, 2), list(m));
        assertEquals(2, m.after(0).message);
        assertEquals(List.of(2), list(m));
        holds(m, 3, 2);
        assertEquals(List.of(3, 4), from(m.drain()));
        assertEquals(List.of(2, 3, 4), list(m));
        holds(m, 3, 2);
    }

    @Test
    void drainingDropsWhatIsOwedToo() {
        BoundedMailbox m = full(WhenFull.DROP_OLD);
        m.drain();
        push(m, 3);
        assertEquals(List.of(1, 2, 3), drained(m));
        holds(m, 3, 1);
    }

    @Test
    void aLookAtLaterMessagesDropsWhatIsOwedToo() {
        BoundedMailbox m = full(WhenFull.DROP_OLD);
        long mark = m.mark();
        push(m, 3);
        assertNull(m.after(mark));
        assertEquals(List.of(1, 2), list(m));
    }

    @Test
    void moreAreOwedThanTheListHolds() {
        BoundedMailbox m = full(WhenFull.DROP_OLD);
        m.drain();
        push(m, 3, 4, 5, 6, 7); // 0, 1 and 2 count as dropped, then 3 and 4 leave the inbox
        holds(m, 3, 5);
        assertEquals(List.of(5, 6, 7), drained(m));
        holds(m, 3, 5);
    }

    @Test
    void aSignalIsNotOwed() {
        BoundedMailbox m = new BoundedMailbox(3, WhenFull.DROP_OLD);
        signal(m, "down");
        push(m, 0, 1);
        m.drain();
        push(m, 2);
        holds(m, 3, 1);
        assertEquals(List.of("down", 1, 2), drained(m));
        push(m, 3);
        remove(m, "down"); // in the current scan: 1 still counts as dropped
        holds(m, 2, 2);
        assertEquals(List.of(2, 3), drained(m));
        holds(m, 2, 2);
        assertNull(push(m, 4));
        holds(m, 3, 2);
    }

    @Test
    void anOwedOneThatTheOwnerTakesWasNotDropped() {
        for (int taken = 0; taken < 2; taken++) {
            BoundedMailbox m = full(WhenFull.DROP_OLD);
            m.drain();
            push(m, 3, 4); // 0 and 1 count as dropped
            remove(m, taken);
            holds(m, 3, 1);
            assertEquals(List.of(2, 3, 4), drained(m));
            holds(m, 3, 1);
        }
    }

    @Test
    void oneThatIsNotOwedMayBeTakenWhileOthersAre() {
        BoundedMailbox m = full(WhenFull.DROP_OLD);
        m.drain();
        push(m, 3); // 0 counts as dropped
        remove(m, 2);
        holds(m, 2, 1);
        remove(m, 1);
        holds(m, 1, 1);
        assertNull(push(m, 4, 5));
        holds(m, 3, 1);
        assertEquals(List.of(3, 4, 5), drained(m));
        holds(m, 3, 1);
    }

    @Test
    void whatHasLeftTheListIsNotOwed() {
        BoundedMailbox m = full(WhenFull.DROP_OLD);
        m.drain();
        for (int i = 0; i < 3; i++) {
            remove(m, i);
        }
        push(m, 3, 4, 5, 6);
        holds(m, 3, 1);
        assertEquals(List.of(4, 5, 6), from(m.drain()));
        assertEquals(List.of(4, 5, 6), list(m));
    }

    @Test
    void aSignalBeforeAnOwedOneDoesNotMakeItYounger() {
        BoundedMailbox m = new BoundedMailbox(3, WhenFull.DROP_OLD);
        signal(m, "down");
        push(m, 0, 1);
        m.drain();
        push(m, 2); // 0 counts as dropped
        remove(m, 0);
        holds(m, 3, 0);
        assertEquals(List.of("down", 1, 2), drained(m));
        holds(m, 3, 0);
        push(m, 3); // 1 counts as dropped
        remove(m, 2);
        holds(m, 2, 1);
        assertEquals(List.of("down", 3), drained(m));
    }

    // --- senders that wait ------------------------------------------------------------------------------------------------

    @Test
    void aSenderWaitsOnlyWhileThereIsNoRoom() {
        BoundedMailbox m = new BoundedMailbox(1, WhenFull.BLOCK);
        assertFalse(m.senders().enlist(new Mail.One()));
        assertEquals(0, m.info().senders());
        push(m, 0);
        Mail.One sender = new Mail.One();
        assertTrue(m.senders().enlist(sender));
        assertEquals(1, m.info().senders());
        assertTrue(sender.isUnclaimed());
        m.drain();
        assertTrue(sender.isUnclaimed());
        remove(m, 0);
        assertEquals(1, sender.completed);
        assertEquals(0, m.info().senders());
        assertFalse(m.senders().enlist(new Mail.One()));
    }

    @Test
    void whoeverMakesRoomWakesTheFirstSender() {
        BoundedMailbox m = full(WhenFull.BLOCK);
        m.drain();
        Mail.One gone = new Mail.One();
        Mail.One first = new Mail.One();
        Mail.One second = new Mail.One();
        m.senders().enlist(gone);
        m.senders().enlist(first);
        m.senders().enlist(second);
        gone.claim(); // by a time-out, say
        remove(m, 0);
        assertEquals(List.of(0, 1, 0), List.of(gone.completed, first.completed, second.completed));
        remove(m, 1);
        assertEquals(List.of(0, 1, 1), List.of(gone.completed, first.completed, second.completed));
    }

    @Test
    void aMessageThatLeavesBeyondTheBoundWakesNobody() {
        BoundedMailbox m = new BoundedMailbox(1, WhenFull.BLOCK);
        push(m, 0);
        signal(m, "down");
        m.drain();
        Mail.One sender = new Mail.One();
        m.senders().enlist(sender);
        remove(m, "down");
        assertTrue(sender.isUnclaimed());
        remove(m, 0);
        assertEquals(1, sender.completed);
    }

    @Test
    void aSenderThatGivesUpWakesTheNextIfThereIsRoom() {
        BoundedMailbox m = new BoundedMailbox(1, WhenFull.BLOCK);
        push(m, 0);
        Mail.One woken = new Mail.One();
        Mail.One next = new Mail.One();
        Mail.One last = new Mail.One();
        m.senders().enlist(woken);
        m.senders().enlist(next);
        m.senders().enlist(last);
        m.drain();
        remove(m, 0);
        assertEquals(1, woken.completed);
        m.senders().giveUp(woken); // it was woken, and sends no message
        assertEquals(List.of(1, 1, 0), List.of(woken.completed, next.completed, last.completed));
    }

    @Test
    void aSenderThatGivesUpWhileThereIsNoRoomLeavesOnly() {
        BoundedMailbox m = new BoundedMailbox(1, WhenFull.BLOCK);
        push(m, 0);
        Mail.One gone = new Mail.One();
        Mail.One next = new Mail.One();
        m.senders().enlist(gone);
        m.senders().enlist(next);
        m.senders().giveUp(gone);
        assertEquals(1, m.info().senders());
        assertTrue(next.isUnclaimed());
        m.drain();
        remove(m, 0);
        assertEquals(List.of(0, 1), List.of(gone.completed, next.completed));
    }

    @Test
    void closingWakesAllSenders() {
        BoundedMailbox m = new BoundedMailbox(1, WhenFull.BLOCK);
        push(m, 0);
        Mail.One first = new Mail.One();
        Mail.One second = new Mail.One();
        Mail.One claimed = new Mail.One();
        m.senders().enlist(first);
        m.senders().enlist(claimed);
        m.senders().enlist(second);
        claimed.claim();
        m.close();
        assertEquals(List.of(1, 0, 1), List.of(first.completed, claimed.completed, second.completed));
        assertFalse(m.senders().enlist(new Mail.One()));
        assertTrue(m.isClosed());
    }

    @Test
    void aClosedOneRefusesAlsoWhenItIsFull() {
        for (WhenFull policy : WhenFull.values()) {
            BoundedMailbox m = full(policy);
            m.drain();
            m.close();
            assertSame(Mailbox.CLOSED, push(m, 3));
            assertEquals(0, m.info().dropped());
            assertEquals(List.of(0, 1, 2), list(m));
        }
    }
}
