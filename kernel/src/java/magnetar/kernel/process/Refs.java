package magnetar.kernel.process;

import magnetar.kernel.fiber.Fiber;

/** Makes references, and says where to begin to look for what holds one. */
public final class Refs {
    private Refs() {}

    /** A new reference. */
    public static Ref make() {
        Fiber fiber = Fiber.current();
        LocalProcess p = LocalProcess.of(fiber);
        return p == null ? new Ref(next(fiber), creation(), null, 0) : make(p);
    }

    /** A new reference of this process, the current one. */
    public static Ref make(LocalProcess me) {
        return new Ref(next(me.fiber()), creation(), me.pid(), youngest(me));
    }

    static long next(Fiber fiber) {
        return fiber.nextId() - Long.MIN_VALUE;
    }

    static long creation() {
        return Fiber.current().world().creation();
    }

    /** The number of its youngest message. A guard that makes a reference must not move what is being looked at: then an older one will do. */
    static long youngest(LocalProcess me) {
        Mailbox mailbox = me.mailbox();
        return mailbox.matching ? mailbox.arrived() : mailbox.mark();
    }

    /** The mark to begin a receive at that asks for one of these values: behind all that is older than the youngest reference among them. */
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
