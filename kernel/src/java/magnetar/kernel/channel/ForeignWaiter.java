package magnetar.kernel.channel;

import magnetar.kernel.park.Waiter;

/**
 * The handler of another library, queued on one of our channels. Its lock corresponds to TRYING of our own
 * waiters.
 *
 * <p>Invariant: the handler is used only between its {@code lock} and {@code unlock}, and committed at most
 * once.
 */
final class ForeignWaiter extends Waiter {
    private final Handler handler;

    // Written under the handler's lock by the thread that commits, read by the same thread afterwards.
    private Handler.Completion completion;

    ForeignWaiter(Handler handler) {
        this.handler = handler;
    }

    @Override
    public long id() {
        return handler.lockId();
    }

    @Override
    public boolean isCallback() {
        return true;
    }

    @Override
    public boolean isUnclaimed() {
        return handler.active();
    }

    @Override
    public boolean claim() {
        return acquire() && committed();
    }

    private boolean committed() {
        commit();
        return true;
    }

    @Override
    public boolean acquire() {
        handler.lock();
        if (handler.active()) {
            return true;
        }
        handler.unlock();
        return false;
    }

    @Override
    public void commit() {
        completion = handler.commit();
        handler.unlock();
    }

    @Override
    public void release() {
        handler.unlock();
    }

    @Override
    public void complete(Object source, Object result) {
        Callback.run(completion, result, true);
    }
}
