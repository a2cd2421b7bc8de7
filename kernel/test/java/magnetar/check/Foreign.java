package magnetar.check;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import magnetar.kernel.channel.Handler;

/** A handler as another library would make it. Handlers of one flag are branches of one choice. */
final class Foreign implements Handler {
    /** The state that all handlers of one choice share: it is committed once, by whichever handler. */
    static final class Flag {
        private static final AtomicLong IDS = new AtomicLong();

        private final long id = IDS.incrementAndGet();
        private final ReentrantLock lock = new ReentrantLock();

        // Written under the lock, read by any thread.
        volatile boolean active = true;
    }

    private final Flag flag;
    private final Completion completion;

    Foreign(Completion completion) {
        this(new Flag(), completion);
    }

    Foreign(Flag flag, Completion completion) {
        this.flag = flag;
        this.completion = completion;
    }

    @Override
    public boolean active() {
        return flag.active;
    }

    @Override
    public boolean blockable() {
        return true;
    }

    @Override
    public long lockId() {
        return flag.id;
    }

    @Override
    public Completion commit() {
        Support.require(flag.lock.isHeldByCurrentThread(), "committed without the lock");
        Support.require(flag.active, "committed twice");
        flag.active = false;
        return completion;
    }

    @Override
    public void lock() {
        flag.lock.lock();
    }

    @Override
    public void unlock() {
        flag.lock.unlock();
    }
}
