package magnetar.kernel.inspect;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.fiber.World;
import magnetar.kernel.park.Parked;
import magnetar.kernel.report.Failures;

/**
 * Names the fibers that hold their carrier for too long: that compute, or wait in a call that a virtual thread cannot give its carrier
 * back in.
 *
 * <p>It looks at all fibers several times within the limit. One that was found on the same carrier at each look, and has not waited in
 * the kernel in between, is reported, once for each such episode. A fiber that is merely queued for a carrier is on none: a virtual
 * thread prints the carrier it is on, and no JDK tells it in another way without flags.
 *
 * <p>Invariants: the episodes are those of fibers that were on a carrier at the last look. Looking takes at most a tenth of the time.
 *
 * <p>Refused: events of the flight recorder (they tell of pinned parks only, and afterwards).
 */
public final class Watchdog extends Thread implements AutoCloseable {
    private static final int LOOKS = 8;
    private static final long SHORTEST_PAUSE_NANOS = 1_000_000;
    private static final int IDLE_SHARE = 9;

    private final long limitNanos;
    private final Consumer<Holding> report;

    // Set by any thread.
    private volatile boolean closed;

    // Only accessed by this thread.
    private Map<Thread, Episode> episodes = new HashMap<>();

    /**
     * A fiber that holds its carrier.
     *
     * @param site the source line that started it
     * @param thread the fiber
     * @param carrier the name of the platform thread that it holds
     * @param nanos for how long it has been seen to
     * @param stack where it is
     */
    public record Holding(String site, Thread thread, String carrier, long nanos, StackTraceElement[] stack) {}

    private static final class Episode {
        final String carrier;
        final long waits;
        final long since;
        int looks;
        boolean reported;

        Episode(String carrier, long waits, long since) {
            this.carrier = carrier;
            this.waits = waits;
            this.since = since;
        }

        boolean goesOn(String carrierNow, long waitsNow) {
            return carrier.equals(carrierNow) && waits == waitsNow;
        }
    }

    /** A watchdog, not started yet, that reports who holds a carrier for so many nanoseconds. */
    public Watchdog(long limitNanos, Consumer<Holding> report) {
        super(null, null, "magnetar-watchdog", 0, false);
        this.limitNanos = limitNanos;
        this.report = report;
        setDaemon(true);
    }

    @Override
    public void run() {
        while (!closed) {
            long before = World.REAL.nanoTime();
            tryToLook(before);
            long took = World.REAL.nanoTime() - before;
            LockSupport.parkNanos(Math.max(Math.max(SHORTEST_PAUSE_NANOS, limitNanos / LOOKS), took * IDLE_SHARE));
        }
    }

    /** Ends it; it may report what it is looking at. */
    @Override
    public void close() {
        closed = true;
        LockSupport.unpark(this);
    }

    private void tryToLook(long now) {
        try {
            look(now);
        } catch (OutOfMemoryError noRoom) {
            // The next look finds more room, or not. A report that threw was told of already.
        }
    }

    private void look(long now) {
        Map<Thread, Episode> next = new HashMap<>();
        for (Thread t : Fibers.threads()) {
            String carrier = carrierOf(t);
            if (carrier != null && t.getUncaughtExceptionHandler() instanceof Fiber f) {
                next.put(t, episode(t, carrier, f.waits(), now));
            }
        }
        episodes = next;
    }

    private Episode episode(Thread thread, String carrier, long waits, long now) {
        Episode e = episodes.get(thread);
        if (e == null || !e.goesOn(carrier, waits)) {
            return new Episode(carrier, waits, now);
        }
        e.looks++;
        if (!e.reported && e.looks >= LOOKS / 2 && now - e.since >= limitNanos) {
            e.reported = true;
            tell(new Holding(thread.getName(), thread, carrier, now - e.since, thread.getStackTrace()));
        }
        return e;
    }

    private void tell(Holding holding) {
        try {
            report.accept(holding);
        } catch (Throwable t) {
            Failures.report("watchdog", this, t);
        }
    }

    /** The name of the carrier that this virtual thread is on, or null. */
    static String carrierOf(Thread thread) {
        if (!thread.isVirtual() || Parked.waitOf(thread) != null) {
            return null;
        }
        String text = thread.toString(); // VirtualThread[#id,name]/state@carrier, or without @carrier
        int at = text.indexOf('@', text.lastIndexOf("]/"));
        return at < 0 ? null : text.substring(at + 1);
    }
}
