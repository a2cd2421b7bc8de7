package magnetar.kernel.process;

/**
 * What one node tells another one about their processes. A transport carries signals, and looks into them only to
 * write and read them.
 *
 * <p>A {@code from} is a process of the sending node. A {@code to} is a process of the receiving one, or its name.
 */
public sealed interface Signal {
    /**
     * A message to a pid, an alias or a name.
     *
     * @param from the sending process, or null
     * @param context the context values of the sender, or null
     */
    record Message(Pid from, Object to, Object message, Object context) implements Signal {}

    /** An exit signal that a program has sent. {@code from} is null if it was sent outside of a process. */
    record Exit(Pid from, Pid to, Object reason, Object context) implements Signal {}

    /** Says to a linked process that this one has ended. */
    record ExitLink(Pid from, Pid to, Object reason) implements Signal {}

    /** Links two processes. */
    record Link(Pid from, Pid to) implements Signal {}

    /** Ends a link. The other node answers with the same id. */
    record Unlink(Pid from, Pid to, long id) implements Signal {}

    /** Says that an {@link Unlink} has arrived. */
    record UnlinkAck(Pid from, Pid to, long id) implements Signal {}

    /** Begins to monitor a pid or a name. */
    record Monitor(Pid from, Object to, Ref ref) implements Signal {}

    /** Ends a monitor. */
    record Demonitor(Pid from, Object to, Ref ref) implements Signal {}

    /** Says to the watcher that the process has ended. {@code from} is its pid or name, as in the {@link Monitor}. */
    record Down(Object from, Pid to, Ref ref, Object reason) implements Signal {}

    /**
     * Asks for a new process.
     *
     * @param what what the process is to do, see {@link Transport#work}
     * @param context the context values of the sender, or null
     */
    record Spawn(Pid from, Ref ref, Pid leader, Object what, boolean link, boolean monitor, Object context) implements Signal {}

    /**
     * Answers {@link Spawn}.
     *
     * @param result the pid of the new process, or the reason why it was not started
     */
    record SpawnReply(Pid to, Ref ref, Object result) implements Signal {}
}
