package magnetar.kernel.channel;

import magnetar.kernel.park.Waiter;

/** Adapts one of our waiters to an operation on a port of another library. */
final class NodeHandler implements Handler, Handler.Completion {
    private static final Completion NOTHING = r -> {};

    private final Node node;

    NodeHandler(Node node) {
        this.node = node;
    }

    /** The handler of an operation that happens now or not at all. */
    static final Handler NOW = new Handler() {
        @Override
        public boolean active() {
            return true;
        }

        @Override
        public boolean blockable() {
            return false;
        }

        @Override
        public long lockId() {
            return 0;
        }

        @Override
        public Completion commit() {
            return NOTHING;
        }

        @Override
        public void lock() {}

        @Override
        public void unlock() {}
    };

    // Only accessed by the thread between lock and unlock.
    private boolean locked;

    private Waiter waiter() {
        return node.waiter;
    }

    @Override
    public boolean active() {
        return waiter().isUnclaimed();
    }

    @Override
    public boolean blockable() {
        return true;
    }

    @Override
    public long lockId() {
        return waiter().id();
    }

    @Override
    public Completion commit() {
        if (!locked && !waiter().acquire()) {
            return NOTHING; // the port commits without the lock, and another event took the claim first
        }
        locked = false;
        waiter().commit();
        return this;
    }

    @Override
    public void complete(Object result) {
        waiter().complete(node, result);
    }

    @Override
    public void lock() {
        locked = waiter().acquire();
    }

    @Override
    public void unlock() {
        if (locked) {
            locked = false;
            waiter().release();
        }
    }
}
