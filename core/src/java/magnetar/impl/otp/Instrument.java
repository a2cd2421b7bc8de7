package magnetar.impl.otp;

/**
 * Learns of the messages that servers handle and of the calls that processes make. {@link Instruments} installs it.
 *
 * <p>Its methods run on the thread of the server or of the caller, and may set context values there until the end.
 * They neither wait nor send messages. What they throw is reported once, and the program goes on.
 *
 * <p>The first method of a pair returns a token, which the second one gets. For a token of null the second one is
 * not called.
 */
public interface Instrument {
    /**
     * The server, which is the current process, is about to handle the message. The context values of the message
     * are in place.
     *
     * @param server a {@code magnetar.impl.otp.host.Server}
     * @param kind the keyword {@code :call}, {@code :cast} or {@code :info}
     * @param message the message as it was in the mailbox
     * @return a token, or null
     */
    Object handles(Object server, Object kind, Object message);

    /**
     * The message is handled.
     *
     * @param error what the server ended by, or null; not what a callback threw that the server survived. It may be
     *     the error by which a process continues as something else.
     */
    void handled(Object token, Object server, Throwable error);

    /**
     * A call is about to be made by the current process, or by a thread that is none yet.
     *
     * @param operation what the program called: a symbol, or a vector of a symbol and the arguments if the library
     *     made the request
     * @param address the callee as the program named it
     * @return a token, or null
     */
    Object calls(Object operation, Object address, Object request);

    /**
     * The call has ended.
     *
     * @param error what the call threw, or null; a {@code magnetar.TimeoutException} also for a call that returned
     *     its {@code :else} as time ran out
     */
    void called(Object token, Throwable error);
}
