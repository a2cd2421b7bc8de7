package magnetar.kernel.process;

/** Chooses messages: the clauses of a receive. */
public interface Matcher {
    /** What is made of the message; null to leave it where it is. */
    Object match(Object message);
}
