package magnetar.check;

import static magnetar.check.Support.require;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import magnetar.kernel.fiber.Exit;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.process.Aliases;
import magnetar.kernel.process.Links;
import magnetar.kernel.process.LittleMemory;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.process.Monitors;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.ProcessTable;
import magnetar.kernel.process.Ref;
import magnetar.kernel.process.Send;
import magnetar.kernel.process.Spawn;
import magnetar.kernel.process.Zombies;

/** Links, monitors, aliases, names and exits, each in a race that could break it. */
final class Signals {
    private static final int ROUNDS = 2_000;

    private Signals() {}

    private static void inNoise(Support.Body body) throws Exception {
        Harness.in(new Support.Noisy(3, 10_000), () -> Harness.finished(Harness.spawn(body)));
        Support.until("all have gone", () -> Fibers.count() == 0);
    }

    /** A process that ends soon, in one of three ways. */
    private static Pid mortal(int how) {
        Pid pid = Harness.spawn(() -> {
            if (how % 3 != 0) {
                Harness.next();
            }
        });
        if (how % 3 != 0) {
            Harness.spawn(() -> Send.exit(pid, how % 3 == 1 ? "x" : "kill"));
        }
        return pid;
    }

    private static boolean isAbout(Object message, int place, Object what) {
        return message instanceof List<?> l && l.size() > place && what.equals(l.get(place));
    }

    /**
     * A process that links to a dying one gets one exit signal, with the reason or with noproc, and keeps no
     * link.
     */
    static void links() throws Exception {
        inNoise(() -> {
            Harness.me().trapExits(true);
            for (int i = 0; i < ROUNDS; i++) {
                Pid dying = mortal(i);
                require(Links.link(Harness.me(), dying), "it traps exits");
                List<?> exit = (List<?>) Harness.next();
                String reason = List.of("normal", "x", "killed").get(i % 3);
                require(isAbout(exit, 1, dying) && (exit.getLast().equals(reason) || exit.getLast().equals("noproc")),
                        "round " + i + ": instead of an exit by " + reason + " came " + exit);
                require(Harness.me().info().links().isEmpty(), "round " + i + " left a link");
            }
        });
    }

    /** When demonitor returns, the death notice is in the mailbox, or never comes. */
    static void monitors() throws Exception {
        inNoise(() -> {
            for (int i = 0; i < ROUNDS; i++) {
                Pid dying = mortal(i);
                Ref ref = Monitors.monitor(Harness.me(), dying, dying, null, Ref.Alias.NONE);
                for (int n = ThreadLocalRandom.current().nextInt(5_000); n > 0; n--) {
                    Thread.onSpinWait();
                }
                boolean was = Monitors.demonitor(Harness.me(), ref);
                Object down = Harness.poll();
                require(was == (down == null), "round " + i + ": demonitor answered " + was + ", and there is " + down);
                require(was || isAbout(down, 1, ref), "round " + i + ": " + down);
            }
            Support.until("the others have gone", () -> Fibers.count() == 1);
            require(Harness.poll() == null, "a message came after its demonitor");
            require(Harness.me().info().monitors().isEmpty(), "a monitor is left");
        });
    }

    /** Of several replies one comes. When the alias is closed, that one is in the mailbox, or never comes. */
    static void aliases() throws Exception {
        inNoise(() -> {
            for (int i = 0; i < ROUNDS; i++) {
                int round = i;
                Pid me = Harness.me().pid();
                Pid idle = i % 2 == 0 ? null : Harness.spawn(() -> Harness.next());
                Ref ref = idle == null ? Aliases.open(Harness.me(), true) : Monitors.monitor(Harness.me(), idle, idle, null, Ref.Alias.REPLY_DEMONITOR);
                for (int n = 0; n < 2; n++) {
                    Harness.spawn(() -> Send.send(ref, round));
                }
                for (int n = ThreadLocalRandom.current().nextInt(20_000); n > 0; n--) {
                    Thread.onSpinWait();
                }
                boolean open = idle == null ? Aliases.close(Harness.me(), ref) : Monitors.demonitor(Harness.me(), ref);
                Object reply = Harness.poll();
                require(open == (reply == null), "round " + i + ": closing answered " + open + ", and the reply is " + reply);
                require(open || reply.equals(i), "round " + i + ": there is " + reply);
                if (idle != null) {
                    Send.exit(idle, "kill");
                }
                require(me.isAlive(), "a reply is no exit");
            }
            Support.until("the others have gone", () -> Fibers.count() == 1);
            require(Harness.poll() == null, "a reply came after its alias was closed, or twice");
        });
    }

    /** A process that learns of a death can register the dead process's name. */
    static void names() throws Exception {
        inNoise(() -> {
            for (int i = 0; i < ROUNDS / 2; i++) {
                int how = i;
                Spawn.Options options = new Spawn.Options("named").name("name").monitors(true);
                Pid named = Spawn.spawn(options, Harness.call(() -> {
                    if (how % 2 == 0) {
                        Harness.next();
                    }
                })).pid();
                if (i % 2 == 0) {
                    Send.exit(named, i % 4 == 0 ? "kill" : "x");
                    require(ProcessTable.whereis("name") == null, "one that was told to exit has its name still");
                }
                Harness.next();
                require(ProcessTable.whereis("name") == null, "round " + i + ": a dead process has a name");
            }
        });
    }

    /**
     * A process that starts another with a link and a monitor hears of its end twice. That holds even if a
     * third process found it in the list of all and killed it before.
     */
    static void births() throws Exception {
        AtomicBoolean over = new AtomicBoolean();
        Harness.in(new Support.Noisy(3, 20_000), () -> {
            Pid starter = Harness.spawn(() -> {
                Harness.me().trapExits(true);
                for (int i = 0; i < ROUNDS; i++) {
                    Spawn.Started child = linkedAndWatched();
                    require(Harness.take(m -> ((List<?>) m).contains(child.pid()), 10 * Harness.SECOND) != null, "round " + i + ": no word of a death");
                    require(Harness.take(m -> ((List<?>) m).contains(child.pid()), 10 * Harness.SECOND) != null, "round " + i + ": one word of a death for two");
                }
            });
            Fibers.start("killer", Fibers.Hold.STRONG, () -> {
                while (!over.get()) {
                    ProcessTable.all().stream().map(LocalProcess::pid).filter(p -> p != starter).forEach(p -> Send.exit(p, "kill"));
                    Thread.yield();
                }
            });
            try {
                Harness.finished(starter);
            } finally {
                over.set(true);
            }
            Support.until("the others have gone", () -> Fibers.count() == 0);
        });
    }

    private static Spawn.Started linkedAndWatched() throws InterruptedException {
        Spawn.Options options = new Spawn.Options("child").links(true).monitors(true);
        return Spawn.spawn(options, Harness.call(() -> Harness.next()));
    }

    /**
     * An exit signal to a process on its caller's thread ends its work or comes too late. Afterwards it does
     * not affect that thread.
     */
    static void guests() throws Exception {
        Harness.in(new Support.Noisy(3, 10_000), () -> {
            int ended = 0;
            for (int i = 0; i < ROUNDS; i++) {
                int round = i;
                Spawn.Options options = new Spawn.Options("guest");
                Spawn.Guest guest = Spawn.host(options, Harness.call(() -> {
                    Pid self = Harness.me().pid();
                    Fibers.start("killer", Fibers.Hold.STRONG, () -> Send.exit(self, round % 2 == 0 ? "x" : "kill"));
                    for (int n = ThreadLocalRandom.current().nextInt(10_000); n > 0; n--) {
                        Thread.onSpinWait();
                    }
                }));
                ended += guest.pid().ended().reason().equals("normal") ? 1 : 0;
                Support.until("the killer has gone", () -> Fibers.count() == 0);
                require(!Thread.interrupted(), "round " + i + ": the interrupt of a signal leaked out of the process");
                Fiber.current().enter();
            }
            require(Zombies.all().isEmpty() && ProcessTable.all().isEmpty(), "a guest is left");
        });
    }

    /**
     * A process that traps exits, and was not told to exit before, gets a message. Once it has stopped
     * trapping, it gets none.
     */
    static void traps() throws Exception {
        inNoise(() -> {
            for (int i = 0; i < ROUNDS; i++) {
                boolean on = i % 2 == 0;
                AtomicBoolean trapped = new AtomicBoolean();
                AtomicReference<Object> late = new AtomicReference<>();
                CountDownLatch ready = new CountDownLatch(1);
                AtomicBoolean sending = new AtomicBoolean();
                AtomicReference<Thread> killer = new AtomicReference<>();
                Pid victim = Harness.spawn(() -> {
                    LocalProcess me = Harness.me();
                    me.trapExits(!on);
                    ready.countDown();
                    while (!sending.get()) {
                        Thread.onSpinWait();
                        Thread.yield();
                    }
                    me.trapExits(on);
                    if (on) {
                        trapped.set(me.cause() == null);
                        Harness.next();
                    } else {
                        Harness.poll();
                        Support.until("the signal is sent", () -> killer.get() != null && !killer.get().isAlive());
                        late.set(Harness.poll());
                    }
                });
                ready.await();
                killer.set(Support.fiber(Fiber.current().environment(), () -> {
                    sending.set(true);
                    Send.exit(victim, "x"); // without a sending process: a fiber is not a process
                }));
                Object reason = Harness.reasonOf(victim);
                require(!trapped.get() || reason.equals("normal"), "round " + i + ": one that traps exits ended by " + reason);
                require(late.get() == null, "round " + i + ": one that does not trap exits got " + late);
            }
        });
    }

    /**
     * For all other processes a kill is the end at once, whatever the process does, and whatever signal came
     * before.
     */
    static void kills() throws Exception {
        for (boolean exiting : new boolean[] {false, true}) {
            AtomicBoolean go = new AtomicBoolean();
            AtomicBoolean ran = new AtomicBoolean();
            CountDownLatch begun = new CountDownLatch(1);
            Pid pid = Harness.spawn(() -> {
                try {
                    begun.countDown();
                    while (!go.get()) {
                        Thread.onSpinWait();
                        Thread.yield();
                    }
                } finally {
                    ran.set(true);
                }
            });
            begun.await();
            Pid watcher = Harness.spawn(() -> {
                Harness.me().trapExits(true);
                Links.link(Harness.me(), pid);
                Monitors.monitor(Harness.me(), pid, pid, null, Ref.Alias.NONE);
                ProcessTable.register("watcher", Harness.me().pid());
                Object first = Harness.next();
                Object second = Harness.next();
                String why = exiting ? "x" : "killed";
                require(isAbout(first, 2, why) && isAbout(second, 4, why), "instead of two words of the death: " + first + ", " + second);
            });
            Support.until("it is watched", () -> ProcessTable.whereis("watcher") != null);
            if (exiting) {
                Send.exit(pid, "x");
                require(!pid.isAlive() && pid.ended() == null, "it is exiting, and not dead");
            }
            Send.exit(pid, "kill");
            require(pid.ended() != null && !ran.get(), "a kill waits for nothing");
            require(Zombies.all().size() == 1 && Zombies.all().getFirst().pid().equals(pid), "its thread is a zombie");
            Harness.finished(watcher);
            go.set(true);
            Support.until("the zombie ends", () -> Zombies.all().isEmpty());
            require(ran.get(), "its clean-up ran");
        }
    }

    /** Other processes learn of an end other than a kill when the clean-ups have run. */
    static void cleanUps() throws Exception {
        inNoise(() -> {
            for (int i = 0; i < ROUNDS / 10; i++) {
                int how = i;
                AtomicBoolean cleaned = new AtomicBoolean();
                AtomicInteger phase = new AtomicInteger();
                Pid pid = Harness.spawn(() -> {
                    try {
                        phase.set(1);
                        if (how % 3 == 0) {
                            Harness.next();
                        } else if (how % 3 == 1) {
                            Thread.sleep(100_000);
                        }
                        for (;;) {
                            Fiber.current().enter();
                        }
                    } finally {
                        for (int n = 0; n < 20; n++) {
                            Thread.yield();
                        }
                        cleaned.set(true);
                    }
                });
                Monitors.monitor(Harness.me(), pid, pid, null, Ref.Alias.NONE);
                Support.until("it runs", () -> phase.get() == 1);
                Send.exit(pid, "x");
                Object down = Harness.next();
                require(isAbout(down, 4, "x") && cleaned.get(), "round " + i + ": " + down + " came, and its clean-up had run: " + cleaned);
            }
        });
    }

    // ---------------------------------------------------------------- storm

    /** How many processes die together. */
    private static final int CLUSTER = 4;

    /**
     * Clusters of linked processes, each watched by monitors and one link, die by random exits and kills,
     * some sent twice or from outside. Each death is reported once to each watcher.
     */
    static void storm(int deaths) throws Exception {
        int watchers = 40;
        AtomicInteger told = new AtomicInteger();
        AtomicReference<Pid> anybody = new AtomicReference<>();
        AtomicBoolean over = new AtomicBoolean();
        List<Pid> all = new ArrayList<>();
        for (int i = 0; i < watchers; i++) {
            all.add(Harness.spawn(() -> watch(deaths / watchers / CLUSTER, told, anybody)));
        }
        Pid stranger = Harness.spawn(() -> {
            while (!over.get()) {
                Pid p = anybody.getAndSet(null);
                if (p != null) {
                    Send.exit(p, ThreadLocalRandom.current().nextBoolean() ? "kill" : "x");
                }
                Thread.yield();
            }
        });
        Support.until("all deaths are told", deaths / 2_000 + 60, () -> all.stream().noneMatch(w -> ProcessTable.live(w) != null));
        over.set(true);
        for (Pid pid : all) {
            Harness.finished(pid);
        }
        Harness.finished(stranger);
        Support.until("all have gone", () -> Fibers.count() == 0);
        require(told.get() == deaths / watchers / CLUSTER * watchers * CLUSTER, "of " + deaths + " deaths " + told + " were told");
        require(Zombies.all().isEmpty() && ProcessTable.names().isEmpty(), "the dead left something");
    }

    private static void watch(int clusters, AtomicInteger told, AtomicReference<Pid> anybody) throws InterruptedException {
        Harness.me().trapExits(true);
        for (int c = 0; c < clusters; c++) {
            List<Pid> members = new ArrayList<>();
            List<Ref> refs = new ArrayList<>();
            Pid before = Harness.me().pid();
            for (int n = 0; n < CLUSTER; n++) {
                Pid linked = before;
                Pid member = Harness.spawn(() -> member(linked));
                refs.add(Monitors.monitor(Harness.me(), member, member, null, Ref.Alias.NONE));
                members.add(before = member);
            }
            boolean whole = c % 2 == 0;
            if (whole) { // all links stand, so one death kills the whole cluster
                for (int n = 0; n < CLUSTER; n++) {
                    Send.send(members.get(n), Harness.me().pid());
                }
                for (int n = 0; n < CLUSTER; n++) {
                    require("linked".equals(Harness.take(m -> m.equals("linked") || isAbout(m, 0, "DOWN"))), "nobody has died yet");
                }
            }
            strike(members, whole, anybody);
            collect(members, refs, told);
        }
        require(Harness.poll() == null, "a signal too many");
        require(Harness.me().info().links().isEmpty() && Harness.me().info().monitors().isEmpty(), "a link or a monitor is left");
    }

    private static void member(Pid before) throws InterruptedException {
        if (!Links.link(Harness.me(), before)) {
            throw new Exit("noproc");
        }
        for (;;) {
            Send.send(Harness.next(), "linked");
        }
    }

    private static void strike(List<Pid> members, boolean whole, AtomicReference<Pid> anybody) {
        ThreadLocalRandom chance = ThreadLocalRandom.current();
        Pid victim = members.get(chance.nextInt(CLUSTER));
        if (chance.nextInt(4) == 0) {
            anybody.set(members.get(chance.nextInt(CLUSTER)));
        }
        Send.exit(victim, chance.nextBoolean() ? "kill" : "x");
        if (!whole) {
            members.forEach(m -> Send.exit(m, "x"));
        }
    }

    /**
     * Expects one message for each monitor, and one exit of the first member, the only one linked to this
     * process, unless it died before.
     */
    private static void collect(List<Pid> members, List<Ref> refs, AtomicInteger told) throws InterruptedException {
        for (Ref ref : refs) {
            List<?> down = (List<?>) Harness.take(m -> isAbout(m, 0, "DOWN"));
            require(refs.stream().filter(r -> r.equals(down.get(1))).count() == 1, "nobody waits for " + down);
            require(List.of("x", "killed", "noproc").contains(down.get(4)), "a death by " + down.get(4));
            require(refs.contains(ref), "it is watched");
            told.incrementAndGet();
        }
        Object exit = Harness.take(m -> isAbout(m, 1, members.getFirst()), 0);
        Object more = Harness.take(m -> !"linked".equals(m) && !isAbout(m, 1, members.getFirst()), 0);
        require(exit == null || isAbout(exit, 0, "EXIT"), "instead of an exit there is " + exit);
        require(more == null, "a signal too many: " + more);
    }

    /** A death is told again if memory ran out while it was told, and its message comes exactly once. */
    static void littleMemory() {
        require(LittleMemory.ofLinked() instanceof List<?> l && "EXIT".equals(String.valueOf(l.get(0)).replace(":", "")), "no EXIT of a link");
        require(LittleMemory.ofMonitored() instanceof List<?> l && "DOWN".equals(String.valueOf(l.get(0)).replace(":", "")), "no DOWN of a monitor");
        require(LittleMemory.ofLostNode() == 3, "a party was not told of a lost node");
    }
}
