package magnetar.kernel.fiber;

/**
 * Why a fiber has to end. Written to the fiber before its thread is interrupted, and never taken back: every kernel
 * operation looks at it on entry and on wake-up and throws again each time.
 */
public sealed interface Cause {
    /** The error that a kernel operation throws in the doomed fiber. */
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

    /** The process was killed: it is dead for everybody else already. */
    record Kill(Object reason) implements Cause {
        @Override
        public Error toError() {
            return new Exit(reason);
        }
    }
}
