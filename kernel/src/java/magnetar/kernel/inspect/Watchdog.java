package magnetar.kernel.inspect;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.park.Parked;
import magnetar.kernel.report.Failures;
import magnetar.kernel.sched.Settings;

/**
 * Reports the fibers that hold their carrier for too long: they compute, or wait in a call during which a
 * virtual thread keeps its carrier.
 *
 * <p>It samples all fibers several times within the limit. A fiber is reported if each sample finds it on the
 * same carrier and it has not waited in the kernel in between; once for each such episode. A fiber that is
 * queued for a carrier is on no carrier. The carrier is read from the thread's {@code toString}, because no
 * JDK offers it in another way without flags.
 *
 * <p>Invariants: only fibers that were on a carrier at the last sample have an episode. Sampling takes at
 * most a tenth of the time.
 *
 * <p>Rejected: events of the flight recorder, which show pinned parks only, and only afterwards.
 */
public final class Watchdog extends Thread implements AutoCloseable {
    private static final int POLLS = 8;
    private static final long SHORTEST_PAUSE_NANOS = 1_000_000;
    private static final int IDLE_RATIO = 9;

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
     * @param nanos for how long it has been seen to hold it
     * @param stack its stack
     */
    public record Holding(String site, Thread thread, String carrier, long nanos, StackTraceElement[] stack) {}

    /** The limit in milliseconds that the property {@code magnetar.watchdog} sets; 0, the default, for no watchdog. */
    public static int limitOfProperty() {
        return Settings.number("magnetar.watchdog", 0, 0);
    }

    private static final class Episode {
        final String carrier;
        final long waits;
        final long since;
        int polls;
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

    /** A watchdog, not started yet, that reports fibers which hold a carrier for so many nanoseconds. */
    public Watchdog(long limitNanos, Consumer<Holding> report) {
        super(null, null, "magnetar-watchdog", 0, false);
        this.limitNanos = limitNanos;
        this.report = report;
        setDaemon(true);
    }

    @Override
    public void run() {
        while (!closed) {
            long before = Environment.REAL.nanoTime();
            tryToLook(before);
            long took = Environment.REAL.nanoTime() - before;
            LockSupport.parkNanos(Math.max(Math.max(SHORTEST_PAUSE_NANOS, limitNanos / POLLS), took * IDLE_RATIO));
        }
    }

    /** Ends the watchdog, which may still report what it samples now. */
    @Override
    public void close() {
        closed = true;
        LockSupport.unpark(this);
    }

    private void tryToLook(long now) {
        try {
            look(now);
        } catch (OutOfMemoryError noRoom) {
            // The next sample may find more memory. A report that threw was reported itself already.
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
        e.polls++;
        if (!e.reported && e.polls >= POLLS / 2 && now - e.since >= limitNanos) {
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
