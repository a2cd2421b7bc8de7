package magnetar.kernel.fiber;

/**
 * Why a fiber has to end. The cause is written to the fiber before its thread is interrupted, and never
 * removed. Every kernel operation checks it on entry and on wake-up, and throws it again each time.
 */
public sealed interface Cause {
    /** The error that a kernel operation throws in the fiber. */
    Error toError();

    /** The scope that owns the fiber was cancelled. */
    record Cancel(Object why) implements Cause {
        @Override
        public Error toError() {
            return new Cancelled(why);
        }
    }

    /** An exit signal reached the process. */
    record Leave(Object reason) implements Cause {
        @Override
        public Error toError() {
            return new Exit(reason);
        }
    }

    /** The process was killed: for all other processes it is dead already. */
    record Kill(Object reason) implements Cause {
        @Override
        public Error toError() {
            return new Exit(reason);
        }
    }
}
