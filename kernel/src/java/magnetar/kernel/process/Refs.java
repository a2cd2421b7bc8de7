package magnetar.kernel.process;

import magnetar.kernel.fiber.Fiber;

/** Makes references, and finds the mark from which a receive that matches on one has to start. */
public final class Refs {
    private Refs() {}

    /** A new reference. */
    public static Ref make() {
        Fiber fiber = Fiber.current();
        LocalProcess p = LocalProcess.of(fiber);
        return p == null ? new Ref(next(fiber), creation(), null, 0) : make(p);
    }

    /** A new reference of this process, which is the current one. */
    public static Ref make(LocalProcess me) {
        return new Ref(next(me.fiber()), creation(), me.pid(), youngest(me));
    }

    static long next(Fiber fiber) {
        return fiber.nextId() - Long.MIN_VALUE;
    }

    static long creation() {
        return Fiber.current().environment().creation();
    }

    /**
     * The number of its youngest message. A guard that makes a reference must not change the list during the
     * scan, so it gets an older mark.
     */
    static long youngest(LocalProcess me) {
        Mailbox mailbox = me.mailbox();
        return mailbox.matching ? mailbox.lastNumber() : mailbox.mark();
    }

    /**
     * The mark from which a receive that matches on one of these values has to start: the mark of the
     * youngest reference among them.
     */
    public static long mark(LocalProcess me, Object... values) {
        long youngest = 0;
        for (Object value : values) {
            if (value instanceof Ref r && r.maker() == me.pid()) {
                youngest = Math.max(youngest, r.mark());
            }
        }
        return youngest;
    }
}
