package magnetar.check;

import java.util.concurrent.locks.ReentrantLock;
import magnetar.kernel.channel.Handler;

/** A handler as another library would make it. */
final class Foreign implements Handler {
    private static final java.util.concurrent.atomic.AtomicLong IDS = new java.util.concurrent.atomic.AtomicLong();

    private final long id = IDS.incrementAndGet();
    private final ReentrantLock lock = new ReentrantLock();
    private final Completion completion;

    // Guarded by the lock.
    private volatile boolean active = true;

    Foreign(Completion completion) {
        this.completion = completion;
    }

    @Override
    public boolean active() {
        return active;
    }

    @Override
    public boolean blockable() {
        return true;
    }

    @Override
    public long lockId() {
        return id;
    }

    @Override
    public Completion commit() {
        if (!active) {
            throw new IllegalStateException("committed twice");
        }
        active = false;
        return completion;
    }

    @Override
    public void lock() {
        lock.lock();
    }

    @Override
    public void unlock() {
        lock.unlock();
    }
}
