package magnetar.kernel.process;

import static magnetar.kernel.process.Mail.push;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class OpenMailboxTest {
    private final OpenMailbox mailbox = new OpenMailbox();

    @Test
    void aLongInboxIsWarnedOfWhenItsOwnerDoesNotLook() {
        for (long i = 1; i < LongQueues.LIMIT; i++) {
            mailbox.push(new Node(i));
        }
        assertEquals(0, mailbox.warningLevel);
        mailbox.push(new Node("one more"));
        assertEquals(1, mailbox.warningLevel);
        assertEquals(LongQueues.LIMIT, mailbox.inboxSize());
    }

    @Test
    void itHasNoBound() {
        push(mailbox, "a");
        assertEquals(new MailboxInfo(1, 0, null, 0, 0), mailbox.info());
    }

    @Test
    void anOrdinaryOwnerIsNotAtRest() {
        assertFalse(mailbox.holdsOneAtRest());
        mailbox.enlist(new Mail.One());
        assertFalse(mailbox.holdsOneAtRest());
    }

    @Test
    void aProcessAtRestIsFoundInIt() {
        mailbox.enlist(new PassivatedWaiter(null, null));
        assertTrue(mailbox.holdsOneAtRest());
    }
}
