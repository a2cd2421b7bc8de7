package magnetar.kernel.process;

/** Chooses messages: the clauses of a receive. */
public interface Matcher {
    /** The result for a message that matches; null leaves the message in its place. */
    Object match(Object message);
}
