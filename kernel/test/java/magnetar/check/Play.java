package magnetar.check;

import static magnetar.check.Support.require;

import java.util.concurrent.Callable;
import java.util.function.Predicate;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.World;
import magnetar.kernel.park.Parked;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.ProcessTable;
import magnetar.kernel.process.Spawn;
import magnetar.kernel.time.Durations;

/** Processes as the checks play with them: the language is the kernel's own, words are strings and messages lists. */
final class Play {
    static final long SECOND = 1_000_000_000L;

    private Play() {}

    /** Runs the body in a fiber of this world, with switch points on; what it spawns lives in that world as well. */
    static void in(World world, Support.Body body) throws Exception {
        Simulated.simulate(true);
        try {
            Support.join(Support.fiber(world, body));
        } finally {
            Simulated.simulate(false);
        }
    }

    /** A process that does this. */
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

    /** The first message that fits, however long it takes. */
    static Object take(Predicate<Object> fits) throws InterruptedException {
        return take(fits, Durations.INFINITE);
    }

    static Object take(Predicate<Object> fits, long nanos) throws InterruptedException {
        return me().receiver().receive(m -> fits.test(m) ? m : null, nanos, 0);
    }

    static Object next() throws InterruptedException {
        return take(m -> true);
    }

    /** What is there now; null if there is nothing. */
    static Object poll() throws InterruptedException {
        return take(m -> true, 0);
    }

    /** The exit reason, once it is there. */
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

    /** Waits for the end of a process, which has to be a normal one. */
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
