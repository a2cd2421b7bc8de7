package magnetar.check;

import static magnetar.check.Support.require;

import java.util.concurrent.Callable;
import java.util.function.Predicate;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Parked;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.ProcessTable;
import magnetar.kernel.process.Spawn;
import magnetar.kernel.time.Durations;

/**
 * Processes for the checks, in the kernel's default language: its constants are strings, its messages are
 * lists.
 */
final class Harness {
    static final long SECOND = 1_000_000_000L;

    private Harness() {}

    /**
     * Runs the body in a fiber of this environment, with switch points on. Processes that it spawns are in
     * that environment too.
     */
    static void in(Environment environment, Support.Body body) throws Exception {
        Simulated.simulate(true);
        try {
            Support.join(Support.fiber(environment, body));
        } finally {
            Simulated.simulate(false);
        }
    }

    /** A process that runs the body. */
    static Pid spawn(Support.Body body) {
        return Spawn.spawn("check", call(body));
    }

    static Callable<Object> call(Support.Body body) {
        return () -> {
            try {
                body.run();
                return null;
            } catch (Exception | Error e) {
                throw e;
            } catch (Throwable e) {
                throw new AssertionError(e);
            }
        };
    }

    static LocalProcess me() {
        return LocalProcess.require("a check");
    }

    /** The first message that matches, however long it takes. */
    static Object take(Predicate<Object> fits) throws InterruptedException {
        return take(fits, Durations.INFINITE);
    }

    static Object take(Predicate<Object> fits, long nanos) throws InterruptedException {
        return me().receive(m -> fits.test(m) ? m : null, nanos, 0);
    }

    static Object next() throws InterruptedException {
        return take(m -> true);
    }

    /** A message that is there now, or null. */
    static Object poll() throws InterruptedException {
        return take(m -> true, 0);
    }

    /** The exit reason, once the process has ended. */
    static Object reasonOf(Pid pid) throws InterruptedException {
        Pid.Ended ended = ProcessTable.join(pid, Integer.getInteger("magnetar.check.seconds", 10) * SECOND);
        require(ended != null, pid + " does not end: " + waitOf(pid));
        return ended.reason();
    }

    private static String waitOf(Pid pid) {
        LocalProcess p = ProcessTable.live(pid);
        Thread t = p == null ? null : p.info().thread();
        return t == null ? "its thread has ended" : "its thread is " + t.getState() + " on " + Parked.waitOf(t);
    }

    /** Waits for the end of a process, which has to be normal. */
    static void finished(Pid pid) throws InterruptedException {
        Object reason = reasonOf(pid);
        require("normal".equals(reason), pid + " ended by " + reason);
    }

    /** Waits until the process is parked in an operation of the kernel. */
    static void parked(Pid pid) {
        Support.until(pid + " waits", () -> {
            LocalProcess p = ProcessTable.live(pid);
            Thread t = p == null ? null : p.info().thread();
            return t != null && Support.parked(t);
        });
    }
}
