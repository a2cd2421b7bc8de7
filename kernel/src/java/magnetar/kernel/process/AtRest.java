package magnetar.kernel.process;

import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import magnetar.kernel.fiber.World;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.time.Timer;
import magnetar.kernel.time.Wheel;

/**
 * A process at rest waits in its mailbox: whoever claims it starts a fiber that goes on with the work.
 *
 * <p>Invariant: whoever has claimed it starts the fiber, or, where memory has ended, leaves it in a list that the timer thread tries again at each tick. So
 * the message that has woken the process is not left lying. Neither list nor timer costs memory then.
 */
final class AtRest extends Waiter {
    private static final AtomicReference<AtRest> STRANDED = new AtomicReference<>();
    private static final AtomicBoolean IS_TRIED_AGAIN = new AtomicBoolean();
    private static final Again AGAIN = new Again();

    private final LocalProcess process;
    private final Callable<?> next;
    private final Object context;

    // Written by whoever leaves it in the list.
    private AtRest stranded;

    AtRest(LocalProcess process, Callable<?> next, Object context) {
        this.process = process;
        this.next = next;
        this.context = context;
    }

    @Override
    public long id() {
        return 0; // meets no channel: nothing is waited for beside the mailbox
    }

    @Override
    public void complete(Object source, Object result) {
        try {
            Spawn.activate(process, next, context);
        } catch (OutOfMemoryError noRoom) {
            strand();
        }
    }

    private void strand() {
        if (process.isDead()) {
            return;
        }
        do {
            stranded = STRANDED.get();
        } while (!STRANDED.compareAndSet(stranded, this));
        if (IS_TRIED_AGAIN.compareAndSet(false, true)) {
            Wheel.of(World.REAL).add(AGAIN);
        }
    }

    /** One timer for all, which is in the wheel or about to be while {@code IS_TRIED_AGAIN}. */
    private static final class Again extends Timer {
        Again() {
            super(World.REAL.nanoTime());
        }

        @Override
        protected void expire() {
            IS_TRIED_AGAIN.set(false);
            AtRest a = STRANDED.getAndSet(null);
            while (a != null) {
                AtRest after = a.stranded;
                a.stranded = null;
                a.complete(null, null);
                a = after;
            }
        }
    }
}
