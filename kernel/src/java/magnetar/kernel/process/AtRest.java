package magnetar.kernel.process;

import java.util.concurrent.Callable;
import magnetar.kernel.park.Waiter;

/** A process at rest waits in its mailbox: whoever claims it starts a fiber that goes on with the work. */
final class AtRest extends Waiter {
    private final LocalProcess process;
    final Callable<?> next;
    final Object context;

    AtRest(LocalProcess process, Callable<?> next, Object context) {
        this.process = process;
        this.next = next;
        this.context = context;
    }

    /** True if a caller may do a piece of its work: it goes on with a {@link Lendable}. */
    boolean lends() {
        return next instanceof Lendable;
    }

    @Override
    public long id() {
        return 0; // meets no channel: nothing is waited for beside the mailbox
    }

    @Override
    public void complete(Object source, Object result) {
        Processes.activate(process, next, context);
    }
}
