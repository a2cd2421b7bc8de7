package magnetar.kernel.process;

/**
 * A name that the kernel does not know, such as one in a registry of the program. It is looked up for each
 * message, on a fiber, because the lookup may run code of the program, which the timer thread must not run.
 */
public interface Address {
    /** The process that has the name now, or null. */
    Pid find();
}
