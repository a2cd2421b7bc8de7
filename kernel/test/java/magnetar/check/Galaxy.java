package magnetar.check;

import static magnetar.check.Support.require;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.process.Links;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.process.Monitors;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.ProcessTable;
import magnetar.kernel.process.Ref;
import magnetar.kernel.process.Send;

/**
 * Processes that link, unlink, monitor and demonitor each other all at once, while exit signals from outside
 * end them. When all is quiet, what each survivor did is compared with what it got: one message for each
 * death that it still watched, none for one that it had stopped watching.
 */
final class Galaxy {
    private static final int SIZE = 16;
    private static final int STEPS = 300;

    private final List<Pid> pids = new ArrayList<>();
    private final Set<Pid> done = ConcurrentHashMap.newKeySet();
    private final AtomicInteger judged = new AtomicInteger();
    private final AtomicBoolean begin = new AtomicBoolean();

    private Galaxy() {}

    static void run(int galaxies) throws Exception {
        Harness.in(new Support.Noisy(6, 5_000), () -> {
            for (int i = 0; i < galaxies; i++) {
                new Galaxy().play();
            }
        });
    }

    private void play() throws Exception {
        for (int i = 0; i < SIZE; i++) {
            int n = i;
            boolean traps = i % 2 == 0;
            pids.add(Harness.spawn(() -> new Member(n, traps).live()));
        }
        begin.set(true);
        while (!quiet()) {
            int victim = ThreadLocalRandom.current().nextInt(20 * SIZE);
            if (victim < SIZE && ProcessTable.all().size() > SIZE / 3) {
                Send.exit(pids.get(victim), List.of("x", "kill", "normal").get(ThreadLocalRandom.current().nextInt(3)));
            }
            Thread.yield();
        }
        List<Pid> survivors = living();
        survivors.forEach(this::symmetric);
        tell(survivors, "judge");
        Support.until("all are judged", () -> judged.get() == survivors.size() || living().size() < survivors.size());
        tell(survivors, "end");
        for (Pid pid : pids) {
            Object reason = Harness.reasonOf(pid);
            require(List.of("normal", "x", "killed").contains(reason), pid + " ended by " + reason);
        }
        require(judged.get() == survivors.size(), "one that was judged has ended");
    }

    private static void tell(List<Pid> all, Object message) throws InterruptedException {
        for (Pid pid : all) {
            Send.send(pid, message);
        }
    }

    /**
     * True if all living processes have done their steps, and each dead one has announced its death: its
     * fiber is gone. The same list answers all questions. With two lists, a process that ended in between
     * would be in neither, while it still announced its death.
     */
    private boolean quiet() {
        List<Pid> all = living();
        return Fibers.count() == all.size() && done.containsAll(all) && all.stream().allMatch(Pid::isAlive);
    }

    private List<Pid> living() {
        return pids.stream().filter(p -> p.ended() == null).toList();
    }

    /** A survivor links and monitors only survivors, and they list it too. */
    private void symmetric(Pid pid) {
        LocalProcess p = ProcessTable.live(pid);
        if (p == null) {
            return;
        }
        for (Pid other : p.info().links()) {
            LocalProcess o = ProcessTable.live(other);
            require(o != null && o.info().links().contains(pid), pid + " is linked to " + other + ", which does not know it");
        }
        for (Object other : p.info().monitors()) {
            LocalProcess o = ProcessTable.live((Pid) other);
            require(o != null && o.info().monitoredBy().contains(pid), pid + " watches " + other + ", which does not know it");
        }
        for (Pid other : p.info().monitoredBy()) {
            LocalProcess o = ProcessTable.live(other);
            require(o != null && o.info().monitors().contains(pid), pid + " is watched by " + other + ", which does not know it");
        }
    }

    /** One process, and what it did and got. */
    private final class Member {
        private final int index;
        private final boolean traps;
        private final Set<Pid> linked = new HashSet<>();
        private final Map<Ref, Pid> watched = new HashMap<>();

        Member(int index, boolean traps) {
            this.index = index;
            this.traps = traps;
        }

        void live() throws InterruptedException {
            Harness.me().trapExits(traps);
            while (!begin.get()) {
                Thread.yield();
            }
            for (int i = 0; i < STEPS; i++) {
                step(ThreadLocalRandom.current().nextInt(SIZE));
            }
            done.add(Harness.me().pid());
            Harness.take("judge"::equals);
            for (Object m = Harness.poll(); m != null; m = Harness.poll()) {
                note((List<?>) m);
            }
            judge();
            judged.incrementAndGet();
            Harness.take("end"::equals);
        }

        /**
         * Of two processes, the one with the lower index links and unlinks them. Otherwise neither could know
         * what the other did last.
         */
        private void step(int n) throws InterruptedException {
            Pid other = pids.get(n);
            switch (ThreadLocalRandom.current().nextInt(6)) {
                case 0, 1 -> {
                    if (n > index && traps) {
                        Links.link(Harness.me(), other);
                        linked.add(other);
                    }
                }
                case 2 -> {
                    if (n > index) {
                        Links.unlink(Harness.me(), other);
                        linked.remove(other);
                    }
                }
                case 3 -> watched.put(Monitors.monitor(Harness.me(), other, other, null, Ref.Alias.NONE), other);
                case 4 -> ceaseToWatch();
                default -> {
                    Object m = Harness.poll();
                    if (m != null) {
                        note((List<?>) m);
                    }
                }
            }
        }

        private void ceaseToWatch() {
            if (!watched.isEmpty()) {
                Ref ref = watched.keySet().iterator().next();
                if (Monitors.demonitor(Harness.me(), ref)) {
                    watched.remove(ref);
                }
            }
        }

        private void note(List<?> m) {
            if (m.getFirst().equals("EXIT")) {
                linked.remove(m.get(1));
            } else {
                require(watched.remove(m.get(1)) != null, "a word of a death that nobody waits for, or a second one: " + m);
            }
        }

        private void judge() {
            for (Pid other : linked) {
                require(other.ended() == null, other + " was linked, and no word of its death came");
            }
            for (Pid other : watched.values()) {
                require(other.ended() == null, other + " was watched, and no word of its death came");
            }
        }
    }
}
