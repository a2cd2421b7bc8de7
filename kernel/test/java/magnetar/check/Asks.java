package magnetar.check;

import static magnetar.check.Support.require;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.process.Calls;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.ProcessTable;
import magnetar.kernel.process.Ref;
import magnetar.kernel.process.Send;
import magnetar.kernel.process.Watched;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Wheel;

/**
 * Calls: a caller may be answered before its request is in the callee's mailbox. It gets that answer,
 * whatever else arrives meanwhile.
 */
final class Asks {
    private static final int ROUNDS = 2_000;
    private static final int UNANSWERED = -2;

    private Asks() {}

    /** The number that the callee returns, "DOWN" if it has died, or null if time ran out. */
    private static Object ask(Pid callee, int number, long nanos) throws InterruptedException {
        long since = System.nanoTime();
        Object answer = Calls.call(Harness.me(), callee, callee, number, nanos);
        if (!(answer instanceof Calls.Failed failed)) {
            return answer;
        }
        if (failed.why() == Calls.Why.DOWN) {
            return "DOWN";
        }
        require(failed.why() == Calls.Why.TIMEOUT && System.nanoTime() - since >= nanos, "the time ran out too early");
        Object late = Calls.giveUp(Harness.me(), failed.ref()); // the answer may have come in between
        return late instanceof Calls.Failed ? null : late;
    }

    private static Ref addressOf(List<?> request) {
        return (Ref) ((Map.Entry<?, ?>) request.get(1)).getValue();
    }

    private static void answerAll() throws InterruptedException {
        for (Object m = Harness.next(); m instanceof List<?> request; m = Harness.next()) {
            spin(200);
            if (!request.get(2).equals(UNANSWERED)) {
                Send.send(addressOf(request), Map.entry(addressOf(request), request.get(2)));
            }
        }
    }

    private static void answerOtherwise() throws InterruptedException {
        Send.send(addressOf((List<?>) Harness.next()), "no answer");
    }

    private static void spin(int atMost) {
        for (int n = ThreadLocalRandom.current().nextInt(atMost); n > 0; n--) {
            Thread.onSpinWait();
        }
    }

    /**
     * Each request gets its own answer while other processes send to the caller, and none of their messages
     * is lost.
     */
    static void answers() throws Exception {
        Harness.in(new Support.Noisy(4, 3_000), () -> {
            Pid server = Harness.spawn(Asks::answerAll);
            List<Pid> all = new ArrayList<>();
            for (int c = 0; c < 3; c++) {
                Pid caller = Harness.spawn(() -> askMany(server));
                all.add(caller);
                all.add(Harness.spawn(() -> {
                    for (int i = 0; i < ROUNDS; i++) {
                        spin(2_000);
                        Send.send(caller, "a stranger's");
                    }
                }));
            }
            for (Pid pid : all) {
                Harness.finished(pid);
            }
            Send.send(server, "stop");
            Harness.finished(server);
        });
    }

    private static void askMany(Pid server) throws InterruptedException {
        for (int i = 0; i < ROUNDS; i++) {
            boolean endless = i % 2 == 0;
            Object answer = ask(server, i, endless ? Durations.INFINITE : 1 + ThreadLocalRandom.current().nextInt(100_000));
            require(Integer.valueOf(i).equals(answer) || !endless && answer == null, "the answer to " + i + " is " + answer);
        }
        for (int i = 0; i < ROUNDS; i++) {
            require("a stranger's".equals(Harness.next()), "a stranger's message comes");
        }
        require(Harness.poll() == null, "a message too many");
    }

    /** A caller of a process that dies learns of the death once. A later call fails at once. */
    static void deaths() throws Exception {
        Harness.in(new Support.Noisy(4, 3_000), () -> {
            for (int round = 0; round < ROUNDS / 4; round++) {
                Pid server = Harness.spawn(Asks::answerAll);
                List<Pid> callers = Stream.generate(() -> Harness.spawn(() -> askTheDying(server))).limit(3).toList();
                spin(40_000);
                Send.exit(server, "kill");
                for (Pid caller : callers) {
                    Harness.finished(caller);
                }
            }
        });
    }

    private static void askTheDying(Pid server) throws InterruptedException {
        Object answer = 0;
        for (int i = 0; !"DOWN".equals(answer); i++) {
            answer = ask(server, i, i % 2 == 0 ? Durations.INFINITE : 60 * Harness.SECOND);
            require(Integer.valueOf(i).equals(answer) || "DOWN".equals(answer), "the answer to " + i + " is " + answer);
        }
        require("DOWN".equals(ask(server, -1, Durations.INFINITE)), "there is nobody");
        require(Harness.poll() == null && Harness.me().info().monitors().isEmpty(), "nothing is left of a call");
    }

    /** A caller that has to exit while it waits in a shield is told so, at whatever time the exit comes. */
    static void shielded() throws Exception {
        Harness.in(new Support.Noisy(4, 3_000), () -> {
            Pid silent = Harness.spawn(() -> Harness.take("stop"::equals));
            for (int round = 0; round < ROUNDS; round++) {
                Pid caller = Harness.spawn(() -> Fiber.current().shield(() -> askInShield(silent)));
                spin(4_000);
                Send.exit(caller, "x");
                require("x".equals(Harness.reasonOf(caller)), "it ends for the reason that it was given");
            }
            Send.send(silent, "stop");
            Harness.finished(silent);
        });
    }

    private static void askInShield(Pid silent) {
        try {
            ask(silent, 1, Durations.INFINITE);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Consecutive calls with different limits: each waits as long as its limit says, and ends. */
    static void limits() throws Exception {
        Pid silent = Harness.spawn(() -> Harness.take("stop"::equals));
        Pid server = Harness.spawn(Asks::answerAll);
        Harness.finished(Harness.spawn(() -> {
            for (int i = 0; i < 40; i++) {
                limits(server, i);
                require(ask(silent, i, 2_000_000) == null, "it is silent");
            }
        }));
        Support.until("no timer is left", () -> Wheel.of(Environment.REAL).size() == 0);
        for (Pid pid : List.of(silent, server)) {
            Send.send(pid, "stop");
            Harness.finished(pid);
        }
    }

    private static void limits(Pid server, int i) throws InterruptedException {
        for (int n = 0; n < 3; n++) {
            ask(server, i, 5_000_000);
        }
        require(ask(server, UNANSWERED, 20_000_000) == null, "a timer that is due too early");
        ask(server, i, 5_000_000);
        long since = System.nanoTime();
        require(Harness.take(m -> false, 15_000_000) == null && System.nanoTime() - since >= 15_000_000, "the timer of a call that is over");
        for (int n = 0; n < 2; n++) {
            require(Integer.valueOf(i).equals(ask(server, i, 1_000 * Harness.SECOND)), "it answers");
        }
        require(ask(server, UNANSWERED, 1_000_000) == null, "a timer that is due too late");
        require(Harness.me().info().monitors().isEmpty(), "a call that has ended watches nobody");
    }

    /** A server keeps no record of callers that called once and now wait for something else. */
    static void once() throws Exception {
        Pid server = Harness.spawn(Asks::answerAll);
        AtomicInteger answered = new AtomicInteger();
        List<Pid> callers = Stream.generate(() -> Harness.spawn(() -> {
            require(Integer.valueOf(1).equals(ask(server, 1, Durations.INFINITE)), "it answers");
            answered.incrementAndGet();
            Harness.take("stop"::equals);
        })).limit(20).toList();
        Support.until("the monitors of the calls that are over have gone", () -> answered.get() == 20 && listedBy(server) == 0);
        for (Pid pid : Stream.concat(callers.stream(), Stream.of(server)).toList()) {
            Send.send(pid, "stop");
            Harness.finished(pid);
        }
    }

    private static int listedBy(Pid pid) {
        return Watched.watchers(pid);
    }

    /** A caller can wait again after a call that timed out, was interrupted, or found its callee dead. */
    static void ghosts() throws Exception {
        Pid silent = Harness.spawn(() -> Harness.take("stop"::equals));
        List<Support.Body> waits = List.of(
                () -> require(ask(silent, 1, 2_000_000) == null, "the time runs out"),
                () -> {
                    try {
                        ask(silent, 2, Durations.INFINITE);
                        throw new AssertionError("it was not interrupted");
                    } catch (InterruptedException e) {
                        require(!Thread.currentThread().isInterrupted(), "the interrupt was told");
                    }
                },
                () -> require("DOWN".equals(ask(Harness.spawn(() -> Harness.next()), 3, Durations.INFINITE)), "it died of the question"),
                () -> {
                    require(ask(Harness.spawn(Asks::answerOtherwise), 4, Harness.SECOND) == null, "no answer came");
                    require("no answer".equals(Harness.next()), "what came instead is a message");
                });
        for (int i = 0; i < waits.size(); i++) {
            Support.Body wait = waits.get(i);
            AtomicBoolean over = new AtomicBoolean();
            Pid pid = Harness.spawn(() -> {
                wait.run();
                over.set(true);
                require(Harness.next().equals("message"), "the message comes");
            });
            if (i == 1) {
                Harness.parked(pid);
                ProcessTable.live(pid).info().thread().interrupt();
            }
            Support.until("wait " + i + " is over", over::get);
            Harness.parked(pid);
            Send.send(pid, "message");
            Harness.finished(pid);
        }
        Send.send(silent, "stop");
        Harness.finished(silent);
    }
}
