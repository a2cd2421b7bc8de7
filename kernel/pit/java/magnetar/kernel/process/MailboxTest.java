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
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.Supplier;
import magnetar.kernel.park.Waiter;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What bounded and unbounded mailboxes have in common. */
class MailboxTest {
    enum Kind {
        OPEN(OpenMailbox::new),
        BOUNDED(() -> new BoundedMailbox(1_000_000, WhenFull.FAIL)),
        DROPPING(() -> new BoundedMailbox(1_000_000, WhenFull.DROP_OLD));

        private final Supplier<Mailbox> make;

        Kind(Supplier<Mailbox> make) {
            this.make = make;
        }
    }

    @ParameterizedTest
    @EnumSource
    void itIsEmptyAtFirst(Kind kind) {
        Mailbox m = kind.make.get();
        assertEquals(0, m.size());
        assertEquals(0, m.inboxSize());
        assertEquals(0, m.mark());
        assertNull(m.drain());
        assertNull(m.after(0));
        assertNull(m.oldest());
        assertFalse(m.isClosed());
        assertEquals(-1, m.find(x -> true));
        assertEquals(0, m.info().messages());
    }

    @ParameterizedTest
    @EnumSource
    void theListIsInTheOrderOfArrival(Kind kind) {
        Mailbox m = kind.make.get();
        assertNull(push(m, "a", "b"));
        signal(m, "c");
        assertEquals(3, m.inboxSize());
        assertEquals(0, m.listSize());
        assertEquals(List.of("a", "b", "c"), from(m.drain()));
        assertEquals(List.of("a", "b", "c"), list(m));
        assertEquals(0, m.inboxSize());
        assertEquals(3, m.listSize());
        assertEquals(3, m.size());
        push(m, "d");
        assertEquals(4, m.size());
        assertEquals(List.of("d"), from(m.drain()));
        assertNull(m.drain());
        push(m, "e", "f");
        assertEquals(List.of("e", "f"), from(m.drain()));
        assertEquals(List.of("a", "b", "c", "d", "e", "f"), list(m));
        assertEquals(6, m.info().messages());
    }

    @ParameterizedTest
    @EnumSource
    void anyMessageCanLeaveTheList(Kind kind) {
        for (int leaves = 0; leaves < 3; leaves++) {
            Mailbox m = kind.make.get();
            List<Object> left = new ArrayList<>(List.of(0, 1, 2));
            push(m, 0, 1, 2);
            m.drain();
            remove(m, left.remove(leaves));
            assertEquals(left, list(m));
            push(m, 3);
            left.add(3);
            assertEquals(3, m.size());
            m.drain();
            assertEquals(left, list(m));
            assertEquals(1, m.taken());
            left.forEach(x -> remove(m, x));
            assertEquals(4, m.taken());
            assertEquals(List.of(), list(m));
            assertEquals(0, m.info().messages());
            push(m, 4);
            m.drain();
            assertEquals(List.of(4), list(m));
        }
    }

    @ParameterizedTest
    @EnumSource
    void aMarkShowsWhatArrivedAfterIt(Kind kind) {
        for (int older = 0; older < 4; older++) {
            Mailbox m = kind.make.get();
            for (int i = 0; i < older; i++) {
                push(m, "old" + i);
            }
            long mark = m.mark();
            assertEquals(older, mark);
            assertEquals(older, m.lastNumber());
            assertEquals(older == 0 ? 0 : older, list(m).size());
            assertNull(older == 0 ? null : m.after(mark));
            push(m, "x", "y");
            assertNull(older == 0 ? null : m.after(mark)); // they are in the inbox
            assertEquals(older + 2, m.mark());
            assertEquals(List.of("x", "y"), from(m.after(mark)));
            assertEquals(List.of("y"), from(m.after(mark + 1)));
            assertNull(m.after(mark + 2));
            assertSame(m.oldest(), m.after(0));
        }
    }

    @ParameterizedTest
    @EnumSource
    void aMarkHoldsWhenOlderMessagesHaveLeft(Kind kind) {
        Mailbox m = kind.make.get();
        push(m, "a", "b", "c");
        long mark = m.mark();
        remove(m, "c");
        push(m, "d");
        assertEquals(4, m.mark());
        assertEquals(List.of("d"), from(m.after(mark)));
        remove(m, "a");
        remove(m, "d");
        assertNull(m.after(mark));
        remove(m, "b");
        assertNull(m.after(mark));
        push(m, "e");
        assertEquals(5, m.mark());
        assertEquals(List.of("e"), from(m.after(mark)));
    }

    @ParameterizedTest
    @EnumSource
    void itDoesAsAList(Kind kind) {
        Random chance = new Random(23);
        Mailbox m = kind.make.get();
        List<Object> inbox = new ArrayList<>();
        List<Object> listed = new ArrayList<>();
        for (int step = 0; step < 3_000; step++) {
            switch (chance.nextInt(5)) {
                case 0, 1 -> {
                    inbox.add(step);
                    push(m, step);
                }
                case 2 -> {
                    assertEquals(inbox, from(m.drain()));
                    listed.addAll(inbox);
                    inbox.clear();
                }
                default -> {
                    if (!listed.isEmpty()) {
                        remove(m, listed.remove(chance.nextInt(listed.size())));
                    }
                }
            }
            assertEquals(listed, list(m));
            assertEquals(inbox.size(), m.inboxSize());
            assertEquals(inbox.size() + listed.size(), m.size());
            assertEquals(m.size(), m.roughSize());
            assertEquals(m.size(), m.info().messages());
        }
    }

    @ParameterizedTest
    @EnumSource
    void itFindsHowManyMessagesAreBeforeOne(Kind kind) {
        Mailbox m = kind.make.get();
        push(m, "a", "b", "a");
        assertEquals(0, m.find("a"::equals));
        assertEquals(1, m.find("b"::equals));
        assertEquals(-1, m.find("d"::equals));
        m.drain();
        push(m, "c", "d", "c");
        assertEquals(0, m.find("a"::equals));
        assertEquals(1, m.find("b"::equals));
        assertEquals(3, m.find("c"::equals));
        assertEquals(4, m.find("d"::equals));
        assertEquals(-1, m.find("e"::equals));
        remove(m, "b");
        assertEquals(2, m.find("c"::equals));
        assertEquals(3, m.find("d"::equals));
        push(m, "z");
        assertEquals(5, m.find("z"::equals));
        assertEquals(0, m.findInInbox("c"::equals));
        assertEquals(3, m.findInInbox("z"::equals));
    }

    @ParameterizedTest
    @EnumSource
    void itTellsItsOldestMessagesInTheOrderOfArrival(Kind kind) {
        Mailbox m = kind.make.get();
        assertEquals(List.of(), m.peek(10));
        push(m, "a", "b", "c");
        assertEquals(List.of("a", "b", "c"), m.peek(10));
        assertEquals(List.of("a", "b"), m.peek(2));
        assertEquals(List.of(), m.peek(0));
        m.drain();
        push(m, "d", "e", "f");
        assertEquals(List.of("a", "b", "c", "d", "e", "f"), m.peek(10));
        assertEquals(List.of("a", "b", "c", "d"), m.peek(4));
        assertEquals(List.of("a", "b", "c"), m.peek(3));
        assertEquals(List.of("a", "b"), m.peek(2));
        remove(m, "b");
        assertEquals(List.of("a", "c", "d"), m.peek(3));
        assertEquals(5, m.size());
    }

    @ParameterizedTest
    @EnumSource
    void itsOwnerWaitsOnlyWhileTheInboxIsEmpty(Kind kind) {
        Mailbox m = kind.make.get();
        push(m, "a");
        assertFalse(m.enlist(new Mail.One()));
        m.drain();
        Mail.One owner = new Mail.One();
        assertTrue(m.enlist(owner));
        assertEquals(0, m.inboxSize());
        assertEquals(-1, m.findInInbox(x -> true));
        assertNull(m.drain());
        Waiter woken = push(m, "b");
        assertSame(owner, woken);
        assertFalse(owner.isUnclaimed());
        assertEquals(0, owner.completed); // the sender completes it
        assertEquals(1, m.inboxSize());
        assertNull(push(m, "c"));
        assertEquals(List.of("b", "c"), from(m.drain()));
        Mail.One again = new Mail.One();
        assertTrue(m.enlist(again));
        assertSame(again, signal(m, "d"));
        assertEquals(List.of("d"), from(m.drain()));
    }

    @ParameterizedTest
    @EnumSource
    void anOwnerThatSomethingElseClaimedIsNotWoken(Kind kind) {
        Mailbox m = kind.make.get();
        assertTrue(m.enlist(Mail.One.claimed()));
        assertNull(push(m, "a"));
        assertEquals(List.of("a"), from(m.drain()));
    }

    @ParameterizedTest
    @EnumSource
    void anOwnerThatGaveUpIsNotWoken(Kind kind) {
        Mailbox m = kind.make.get();
        Mail.One owner = new Mail.One();
        assertTrue(m.enlist(owner));
        m.delist(new Mail.One());
        assertSame(owner, push(m, "a"));
        m.drain();
        Mail.One gone = new Mail.One();
        assertTrue(m.enlist(gone));
        m.delist(gone);
        assertNull(push(m, "b"));
        assertTrue(gone.isUnclaimed());
        m.delist(gone); // as an owner does if a message came meanwhile
        assertEquals(List.of("b"), from(m.drain()));
    }

    @ParameterizedTest
    @EnumSource
    void aClosedOneTakesNothing(Kind kind) {
        Mailbox m = kind.make.get();
        push(m, "a");
        m.drain();
        push(m, "b");
        m.close();
        assertTrue(m.isClosed());
        assertSame(Mailbox.CLOSED, push(m, "c"));
        assertSame(Mailbox.CLOSED, signal(m, "d"));
        assertEquals(0, m.inboxSize());
        assertEquals(1, m.size());
        assertNull(m.drain());
        assertFalse(m.enlist(new Mail.One()));
        m.close();
        assertTrue(m.isClosed());
    }

    @ParameterizedTest
    @EnumSource
    void closingWakesTheOwner(Kind kind) {
        Mailbox m = kind.make.get();
        Mail.One owner = new Mail.One();
        m.enlist(owner);
        m.close();
        assertEquals(1, owner.completed);
        m.close();
        assertEquals(1, owner.completed);
        assertSame(Mailbox.CLOSED, push(m, "a"));
    }

    @ParameterizedTest
    @EnumSource
    void closingWakesNoOwnerThatSomethingElseClaimed(Kind kind) {
        Mailbox m = kind.make.get();
        Mail.One owner = Mail.One.claimed();
        m.enlist(owner);
        m.close();
        assertEquals(0, owner.completed);
    }

    @ParameterizedTest
    @EnumSource
    void theOwnerDropsAllMessages(Kind kind) {
        for (int kept : new int[] {1, 2}) {
            Mailbox m = kind.make.get();
            push(m, "a");
            if (kept > 1) {
                push(m, "b");
            }
            m.drain();
            push(m, "c");
            m.drop();
            assertTrue(m.isClosed());
            assertEquals(0, m.size());
            assertEquals(List.of(), list(m));
            assertNull(m.after(0));
            assertNull(m.after(1));
            assertEquals(-1, m.find(x -> true));
            assertSame(Mailbox.CLOSED, push(m, "d"));
        }
    }

    @ParameterizedTest
    @EnumSource
    void aLongListIsWarnedOfUntilItIsShort(Kind kind) {
        Mailbox m = kind.make.get();
        int limit = (int) LongQueues.LIMIT;
        for (int i = 1; i < limit; i++) {
            m.push(new Node(i));
        }
        m.drain();
        assertEquals(0, m.warningLevel);
        m.push(new Node(limit));
        m.drain();
        assertEquals(1, m.warningLevel);
        while (m.listSize() > limit / 10) {
            m.remove(m.oldest());
        }
        m.drain();
        assertEquals(1, m.warningLevel);
        m.push(new Node("one more than a tenth"));
        m.drain();
        assertEquals(1, m.warningLevel);
        m.remove(m.oldest());
        m.remove(m.oldest());
        m.push(new Node("a tenth"));
        m.drain();
        assertEquals(0, m.warningLevel);
    }

    @ParameterizedTest
    @EnumSource
    void anAnswerOfPushIsNoWaiter(Kind kind) {
        Mailbox m = kind.make.get();
        m.close();
        Waiter answer = push(m, "a");
        assertEquals(0, answer.id());
        assertThrows(AssertionError.class, () -> answer.complete(m, null));
    }
}
