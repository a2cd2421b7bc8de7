package magnetar.kernel.process;

/**
 * Whoever has a name that the kernel does not know, such as one in a registry of the program. Looked up for each message, on a fiber: it may run
 * code of the program, which the timer thread must not.
 */
public interface Address {
    /** The process that has the name now, or null. */
    Pid find();
}
