package magnetar.kernel.process;

import java.util.concurrent.Callable;

/** What a process at rest goes on with, if a caller may do a piece of its work on the caller's own fiber: see {@link Inline}. */
public interface Lendable extends Callable<Object> {
    /** True if this request is served without blocking, in less than so many nanoseconds. Called by any thread. */
    boolean takes(Object request, long nanos);

    /**
     * Serves the request, as the process. Returns what the process goes on with: it rests on another one of these; anything else gets a fiber,
     * at once.
     */
    Callable<?> serve(Object request);
}
