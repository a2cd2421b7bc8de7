package magnetar.kernel.sim;

import java.util.concurrent.Callable;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.fiber.FiberBody;
import magnetar.kernel.fiber.Simulated;

/**
 * A function that runs on a fiber of a node, for a fiber that waits for its end. It ends too when the node crashes.
 *
 * <p>It shares no object of the kernel with the node. So a crash leaves nothing locked that the waiting fiber needs.
 */
public final class NodeCall extends FiberBody implements Spoken {
    private final SimNode node;
    private final Callable<?> function;
    private final Thread waiting = Thread.currentThread();

    // Only accessed by the fiber that the carrier runs.
    private Object value;
    private Throwable error;
    private boolean over;
    private boolean crashed;

    NodeCall(SimNode node, Callable<?> function) {
        this.node = node;
        this.function = function;
    }

    @Override
    protected void execute() {
        try {
            value = function.call();
        } catch (Throwable t) {
            error = t;
        }
    }

    @Override
    protected void ended() {
        node.calls.remove(this);
        end();
    }

    /** Called when the node has crashed before the function ended. */
    void crash() {
        crashed = true;
        end();
    }

    private void end() {
        over = true;
        node.simulation.wakes(waiting);
        LockSupport.unpark(waiting);
    }

    /** Waits for the end, in the fiber that has made the call. */
    void await() throws InterruptedException {
        ((SimEnvironment) Simulated.environment()).await(() -> over, this);
    }

    /** True if the node has crashed before the function ended. */
    public boolean hasCrashed() {
        return crashed;
    }

    /** What the function threw, or null. */
    public Throwable error() {
        return error;
    }

    /** What the function returned. */
    public Object value() {
        return value;
    }

    @Override
    public String toString() {
        return "a call on " + node;
    }
}
