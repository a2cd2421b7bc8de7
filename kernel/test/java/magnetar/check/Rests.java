package magnetar.check;

import static magnetar.check.Support.require;

import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.process.Hosting;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.process.Monitors;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.ProcessTable;
import magnetar.kernel.process.Ref;
import magnetar.kernel.process.Send;
import magnetar.kernel.process.Spawn;

/** Passivated processes, in races with what wakes them. */
final class Rests {
    private static final int ROUNDS = 2_000;
    private static final int SENDERS = 3;

    private Rests() {}

    /** Handles a message; false to end. */
    interface Eater {
        boolean eat(Object message) throws Throwable;
    }

    /** A process that handles its messages, and is passivated while it has none. */
    static Callable<Object> eating(Eater eater) {
        return Harness.call(() -> {
            Object message;
            do {
                message = Harness.poll();
                if (message == null) {
                    Hosting.passivate(Harness.me(), eating(eater));
                }
            } while (eater.eat(message));
        });
    }

    private static void spin(int most) {
        for (int n = ThreadLocalRandom.current().nextInt(most); n > 0; n--) {
            Thread.onSpinWait();
        }
    }

    private static void inNoise(Support.Body body) throws Exception {
        Harness.in(new Support.Noisy(3, 10_000), () -> Harness.finished(Harness.spawn(body)));
        Support.until("all have gone", () -> Fibers.count() == 0 && ProcessTable.all().isEmpty());
    }

    /**
     * The messages of each sender are handled once and in order, on whichever fiber. The state passes from
     * one fiber to the next.
     */
    static void messages() throws Exception {
        inNoise(() -> {
            int[] eaten = new int[SENDERS + 1];
            Pid pid = Spawn.spawn("check", eating(m -> {
                List<?> l = (List<?>) m;
                int sender = (Integer) l.get(0);
                require(l.get(1).equals(eaten[sender]++), "of sender " + sender + " came " + l + " after " + (eaten[sender] - 2));
                return ++eaten[SENDERS] < SENDERS * ROUNDS;
            }));
            for (int s = 0; s < SENDERS; s++) {
                int sender = s;
                Harness.spawn(() -> {
                    for (int i = 0; i < ROUNDS; i++) {
                        Send.send(pid, List.of(sender, i));
                        spin(2_000);
                    }
                });
            }
            Object reason = Harness.reasonOf(pid);
            require(reason.equals("normal"), "instead of all came " + eaten[SENDERS] + " messages, and the end by " + reason);
        });
    }

    /**
     * A message that came after the last scan of the mailbox, and before the process left its fiber, is
     * handled.
     */
    static void withMessage() throws Exception {
        inNoise(() -> {
            Pid pid = Spawn.spawn("check", Harness.call(() -> {
                Send.send(Harness.me().pid(), "m");
                Hosting.passivate(Harness.me(), eating(m -> false));
            }));
            Object reason = Harness.reasonOf(pid);
            require(reason.equals("normal"), "it ended by " + reason);
        });
    }

    /** It is passivated after each message, and found each time. */
    static void again() throws Exception {
        Harness.in(new Support.Noisy(3, 10_000), () -> {
            AtomicInteger eaten = new AtomicInteger();
            Pid pid = Spawn.spawn("check", eating(m -> eaten.incrementAndGet() < 10));
            for (int i = 0; i < 10; i++) {
                int before = i;
                // a handled message proves that it is passivated, and not that its fiber has not begun
                Support.until("one that has nothing to do rests, the time " + i, () -> eaten.get() == before && resting(pid));
                Send.send(pid, "m");
            }
            Object reason = Harness.reasonOf(pid);
            require(reason.equals("normal"), "after " + eaten + " messages it ended by " + reason);
        });
    }

    private static boolean resting(Pid pid) {
        LocalProcess p = ProcessTable.live(pid);
        require(p != null, "it has ended");
        return p.info().thread() == null;
    }

    /**
     * An exit signal ends it at any point between work and passivation. Until then it is in the list of all
     * processes.
     */
    static void signals() throws Exception {
        inNoise(() -> {
            for (int i = 0; i < ROUNDS; i++) {
                Pid pid = Spawn.spawn("check", eating(m -> true));
                Ref ref = Monitors.monitor(Harness.me(), pid, pid, null, Ref.Alias.NONE);
                Harness.spawn(() -> Send.send(pid, "m"));
                spin(5_000);
                int round = i;
                require(ProcessTable.all().stream().anyMatch(p -> p.pid() == pid), "round " + round + ": one that is alive is not in the list");
                Send.exit(pid, i % 2 == 0 ? "x" : "kill");
                List<?> down = (List<?>) Harness.next();
                require(down.get(1).equals(ref) && down.getLast().equals(i % 2 == 0 ? "x" : "killed"), "round " + round + ": " + down);
            }
        });
    }
}
