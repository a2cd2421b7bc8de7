package magnetar.kernel.process;

import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.time.Timer;
import magnetar.kernel.time.Wheel;

/**
 * The waiter of a passivated process, which has no fiber while it is idle. It waits in the mailbox. The
 * thread that claims it starts a fiber that continues the work.
 *
 * <p>Invariant: the claiming thread starts the fiber. If memory has run out, it adds this to a list instead,
 * and the timer thread tries again at each tick. So the message that woke the process is handled. The list
 * and its timer allocate nothing at that time.
 */
final class PassivatedWaiter extends Waiter {
    private static final AtomicReference<PassivatedWaiter> STRANDED = new AtomicReference<>();
    private static final AtomicBoolean IS_TRIED_AGAIN = new AtomicBoolean();
    private static final Again AGAIN = new Again();

    private final LocalProcess process;
    private final Callable<?> next;

    // Guarded by the lock of the part of Passivated that lists this.
    PassivatedWaiter before;
    PassivatedWaiter after;
    boolean listed;

    // Written by the thread that adds this to the list.
    private PassivatedWaiter stranded;

    PassivatedWaiter(LocalProcess process, Callable<?> next) {
        this.process = process;
        this.next = next;
    }

    LocalProcess process() {
        return process;
    }

    @Override
    public long id() {
        return 0; // never competes with a channel: a passivated process waits only in its mailbox
    }

    @Override
    public void complete(Object source, Object result) {
        try {
            Spawn.activate(this, process, next);
        } catch (OutOfMemoryError noRoom) {
            strand();
        }
    }

    private void strand() {
        if (process.isDead()) {
            Passivated.remove(this);
            return;
        }
        do {
            stranded = STRANDED.get();
        } while (!STRANDED.compareAndSet(stranded, this));
        if (IS_TRIED_AGAIN.compareAndSet(false, true)) {
            Wheel.of(Environment.REAL).add(AGAIN);
        }
    }

    /** The one timer of the list. It is in the wheel, or about to be, while {@code IS_TRIED_AGAIN}. */
    private static final class Again extends Timer {
        Again() {
            super(Environment.REAL.nanoTime());
        }

        @Override
        protected void expire() {
            IS_TRIED_AGAIN.set(false);
            PassivatedWaiter a = STRANDED.getAndSet(null);
            while (a != null) {
                PassivatedWaiter after = a.stranded;
                a.stranded = null;
                a.complete(null, null);
                a = after;
            }
        }
    }
}
