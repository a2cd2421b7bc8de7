package magnetar.check;

import static magnetar.check.Support.require;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.process.Inline;
import magnetar.kernel.process.Lendable;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.Processes;
import magnetar.kernel.process.Ref;
import magnetar.kernel.process.Zombies;
import magnetar.kernel.time.Durations;

/** Processes at rest whose work is done on the fibers of others, in the races with messages, exit signals and the deaths of those others. */
final class Inlines {
    private static final int ROUNDS = 500;
    private static final int CALLERS = 4;

    private Inlines() {}

    /** Two numbers that are the same whenever nobody works on them. Plain: that only one does is what is checked. */
    private static final class Books {
        int debit;
        int credit;
        final AtomicInteger inline = new AtomicInteger();

        void move(Pid self) throws InterruptedException {
            require(debit == credit, "the books do not balance: " + debit + ", " + credit);
            debit++;
            Fiber.current().enter();
            spin(1_000);
            require(!Thread.currentThread().isInterrupted() || !self.isAlive(), "the handler is interrupted, and its process lives");
            Fiber.current().enter();
            credit++;
        }
    }

    private static void spin(int most) {
        for (int n = ThreadLocalRandom.current().nextInt(most); n > 0; n--) {
            Thread.onSpinWait();
        }
    }

    /** Rests, serves visitors, eats messages: "end" is the last one. */
    private record Clerk(Books books) implements Lendable {
        @Override
        public Object call() throws Exception {
            return Play.call(() -> {
                for (Object m = Play.poll(); !"end".equals(m); m = Play.poll()) {
                    if (m == null) {
                        Play.me().rest(this);
                    }
                    books.move(Play.me().pid());
                }
                require(books.debit == books.credit, "at the end: " + books.debit + ", " + books.credit);
            }).call();
        }

        @Override
        public boolean takes(Object request, long nanos) {
            return nanos == Durations.INFINITE;
        }

        @Override
        public Callable<?> serve(Object request) {
            Pid self = Play.me().pid();
            require(request != self, "the handler is not the server");
            try {
                books.move(self);
            } catch (InterruptedException e) {
                throw new AssertionError("the handler is interrupted", e);
            }
            books.inline.incrementAndGet();
            return ThreadLocalRandom.current().nextInt(8) == 0 ? this::call : this;
        }
    }

    /** One piece of work, once the process rests or soon after: on this fiber if that may be, else by a message. */
    private static void visit(Pid pid) throws InterruptedException {
        Pid me = Play.me().pid();
        for (int n = 0; n < 100 && !Inline.isOffered(pid); n++) {
            Thread.yield();
        }
        if (!Inline.serve(Play.me(), pid, me, Durations.INFINITE)) {
            Processes.send(pid, "m");
        }
        require(Play.me().pid() == me, "who served somebody is itself again");
    }

    private static void inNoise(Support.Body body) throws Exception {
        Play.in(new Support.Noisy(3, 10_000), () -> Play.finished(Play.spawn(body)));
        Support.until("all have gone", () -> Fibers.count() == 0 && Processes.all().isEmpty());
    }

    /** Callers and messages at once: each piece of work is done once, by one at a time. */
    static void work() throws Exception {
        inNoise(() -> {
            Books books = new Books();
            Pid clerk = Processes.spawn("check", new Clerk(books));
            List<Pid> callers = new ArrayList<>();
            for (int c = 0; c < CALLERS; c++) {
                callers.add(Play.spawn(() -> {
                    for (int i = 0; i < ROUNDS; i++) {
                        visit(clerk);
                        spin(20_000);
                    }
                }));
            }
            for (Pid caller : callers) {
                Play.finished(caller);
            }
            Processes.send(clerk, "end");
            Play.finished(clerk);
            require(books.debit == CALLERS * ROUNDS, "done were " + books.debit);
            require(books.inline.get() > 0, "nothing was done inline");
        });
    }

    /** Callers that are killed, or told to exit, wherever they are: the books balance, and the caller goes, for its own reason, also out of a sleep. */
    static void deaths() throws Exception {
        inNoise(() -> {
            Books books = new Books();
            Pid clerk = Processes.spawn("check", new Clerk(books));
            for (int i = 0; i < 4 * ROUNDS; i++) {
                int visits = i % 4 < 2 ? 1 : 50;
                Pid caller = Play.spawn(() -> {
                    for (int n = 0; n < visits; n++) {
                        visit(clerk);
                    }
                    Thread.sleep(1_000_000);
                });
                spin(visits == 1 ? 8_000 : 50_000);
                Processes.exit(caller, i % 2 == 0 ? "x" : "kill");
                Object reason = Play.reasonOf(caller);
                require(reason.equals(i % 2 == 0 ? "x" : "killed"), "round " + i + ": the caller ended by " + reason);
            }
            Processes.send(clerk, "end");
            Play.finished(clerk);
            require(books.inline.get() > 0, "nothing was done inline");
        });
    }

    /** The process that is served for is told to exit: it ends, with its reason; no interrupt of it stays with the caller. */
    static void signals() throws Exception {
        inNoise(() -> {
            for (int i = 0; i < ROUNDS; i++) {
                int round = i;
                Pid clerk = Processes.spawn("check", new Clerk(new Books()));
                Ref ref = Play.me().monitor(clerk, clerk, null, "NONE");
                Pid caller = Play.spawn(() -> {
                    for (int n = 0; n < 5; n++) {
                        visit(clerk);
                        require(!Thread.currentThread().isInterrupted(), "round " + round + ": an interrupt has leaked");
                    }
                });
                spin(20_000);
                Processes.exit(clerk, i % 2 == 0 ? "x" : "kill");
                List<?> down = (List<?>) Play.next();
                require(down.get(1).equals(ref) && down.getLast().equals(i % 2 == 0 ? "x" : "killed"), "round " + i + ": " + down);
                Play.finished(caller);
            }
        });
        Support.until("no zombie is left", () -> Zombies.all().isEmpty());
    }

    /** Sleeps in its work, which it should not. */
    private record Sleeper(AtomicInteger at) implements Lendable {
        @Override
        public Object call() throws Exception {
            Play.poll();
            Play.me().rest(this);
            return null;
        }

        @Override
        public boolean takes(Object request, long nanos) {
            return true;
        }

        @Override
        public Callable<?> serve(Object request) {
            at.incrementAndGet();
            try {
                Thread.sleep(1_000_000);
            } catch (InterruptedException e) {
                at.incrementAndGet();
            }
            return this;
        }
    }

    /** A process that is told to exit is interrupted in its work on another's fiber; the other goes on undisturbed. */
    static void interrupt() throws Exception {
        inNoise(() -> {
            AtomicInteger at = new AtomicInteger();
            Pid sleeper = Processes.spawn("check", new Sleeper(at));
            Support.until("it rests", () -> Inline.rests(sleeper));
            Pid caller = Play.spawn(() -> {
                require(Inline.serve(Play.me(), sleeper, "m", Durations.INFINITE), "not served");
                require(!Thread.currentThread().isInterrupted(), "an interrupt has leaked");
            });
            Support.until("it is served", () -> at.get() == 1);
            Processes.exit(sleeper, "x");
            Play.finished(caller);
            require(Play.reasonOf(sleeper).equals("x") && at.get() == 2, "it slept on");
        });
    }

    /** Servers that serve each other: eight deep, not more, and who is told to exit in the middle does so when it has its fiber back. */
    static void nested() throws Exception {
        inNoise(() -> {
            int[] deepest = {0};
            List<Pid> chain = new ArrayList<>();
            for (int i = 0; i < 12; i++) {
                Pid next = chain.isEmpty() ? null : chain.getLast();
                int level = i;
                chain.add(Processes.spawn("check", new Lendable() {
                    @Override
                    public Object call() throws Exception {
                        return Play.call(() -> {
                            while (Play.poll() == null) {
                                Play.me().rest(this);
                            }
                        }).call();
                    }

                    @Override
                    public boolean takes(Object request, long nanos) {
                        return true;
                    }

                    @Override
                    public Callable<?> serve(Object request) {
                        LocalProcess me = Play.me();
                        int depth = (Integer) request;
                        deepest[0] = Math.max(deepest[0], depth);
                        if (next != null) {
                            Inline.serve(me, next, depth + 1, Durations.INFINITE);
                        }
                        require(Play.me() == me, "level " + level + " is itself again");
                        return this;
                    }
                }));
            }
            for (Pid p : chain) {
                Support.until("it rests", () -> Inline.rests(p));
            }
            require(Inline.serve(Play.me(), chain.getLast(), 1, Durations.INFINITE), "nothing was served");
            require(deepest[0] == Fiber.MOST_LENT, "served were " + deepest[0] + " inside each other");
            for (Pid p : chain) {
                Processes.send(p, "end");
                Play.finished(p);
            }
        });
    }
}
