package magnetar.kernel.process;

/**
 * A mailbox at one instant.
 *
 * @param messages how many messages wait in it
 * @param capacity how many ordinary messages it may hold; 0 for no bound
 * @param whenFull what happens to one that finds no room: BLOCK, DROP_NEW, DROP_OLD or FAIL; null without a bound
 * @param dropped how many were dropped because it was full
 * @param senders how many fibers wait for room in it
 */
public record MailboxInfo(int messages, int capacity, String whenFull, long dropped, int senders) {}
