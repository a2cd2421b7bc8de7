package magnetar.check;

import static magnetar.check.Support.require;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;
import magnetar.kernel.process.Aliases;
import magnetar.kernel.process.Links;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.process.Monitors;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.ProcessInfo;
import magnetar.kernel.process.ProcessTable;
import magnetar.kernel.process.Ref;
import magnetar.kernel.process.Send;
import magnetar.kernel.process.Spawn;

/**
 * A few processes link, monitor, trap, name, end and kill each other at random, one step at a time. A model
 * does the same. After each step both agree on links, monitors, names and all messages that have come.
 */
final class Model {
    private static final int SIZE = 5;
    private static final List<String> MODES = List.of("NONE", "OPEN", "DEMONITOR", "REPLY_DEMONITOR", "REPLY");

    /** What a process has to do. */
    private record Command(Support.Body body, CountDownLatch done) {}

    /** One process, and the model's state of it. */
    private static final class Node {
        final int index;
        final List<String> log = Collections.synchronizedList(new ArrayList<>());
        Pid pid;
        boolean dead;
        boolean traps;
        String name;
        final List<Node> links = new ArrayList<>();
        final List<Watch> watching = new ArrayList<>();
        final List<String> messages = new ArrayList<>();

        Node(int index) {
            this.index = index;
        }
    }

    /** A monitor or an alias. */
    private static final class Watch {
        final int number;
        final Node by;
        final Node on; // null for an alias
        String mode;
        Ref ref;

        Watch(int number, Node by, Node on, String mode) {
            this.number = number;
            this.by = by;
            this.on = on;
            this.mode = mode;
        }
    }

    private final Random chance;
    private final List<Node> stars = new ArrayList<>();
    private final List<Watch> watches = new ArrayList<>();
    private final StringBuilder story = new StringBuilder();
    private final String prefix;
    private final boolean rests;
    private int made;

    private Model(long seed, boolean rests) {
        this.chance = new Random(seed);
        this.rests = rests;
        this.prefix = "star " + seed + " ";
        for (int i = 0; i < SIZE; i++) {
            stars.add(born(i));
        }
    }

    static void run(int universes, int steps) throws Exception {
        run(universes, steps, false);
    }

    /** The same, with processes that are passivated while they are idle. */
    static void runAtRest(int universes, int steps) throws Exception {
        run(universes, steps, true);
    }

    private static void run(int universes, int steps, boolean rests) throws Exception {
        Harness.in(new Support.Noisy(32, 3_000), () -> {
            for (int seed = 0; seed < universes; seed++) {
                new Model(seed, rests).play(steps);
            }
        });
    }

    private void play(int steps) throws Exception {
        for (int i = 0; i < steps; i++) {
            step();
            Support.until("after " + story + " the model says\n" + expected() + "and the processes\n" + actual(), () -> expected().equals(actual()));
        }
        for (Node s : stars) {
            if (!s.dead) {
                Send.exit(s.pid, "kill");
            }
        }
    }

    private Node born(int index) {
        Node s = new Node(index);
        s.pid = rests ? Spawn.spawn("check", Rests.eating(m -> obey(s, m))) : Harness.spawn(() -> obey(s));
        return s;
    }

    private void obey(Node s) throws Throwable {
        while (obey(s, Harness.next())) {}
    }

    /** Runs a command; false to end. */
    private boolean obey(Node s, Object m) throws Throwable {
        if (!(m instanceof Command c)) {
            s.log.add(text(m));
            return true;
        }
        if (c.body == null) {
            c.done.countDown();
            return false;
        }
        try {
            c.body.run();
        } finally {
            c.done.countDown();
        }
        return true;
    }

    private String text(Object m) {
        if (m instanceof List<?> l) {
            return l.getFirst().equals("EXIT") ? "EXIT " + indexOf(l.get(1)) + " " + l.get(2)
                    : l.getFirst() + " " + indexOf(l.get(3)) + " " + l.get(4);
        }
        return String.valueOf(m);
    }

    private int indexOf(Object pid) {
        return stars.stream().filter(s -> s.pid.equals(pid)).findFirst().map(s -> s.index).orElse(-1);
    }

    private void tell(Node s, String what, Support.Body body) throws Exception {
        story.append(s.index).append(' ').append(what).append("; ");
        CountDownLatch done = new CountDownLatch(1);
        Send.send(s.pid, new Command(body, done));
        Support.until(s.index + " does: " + what, () -> done.getCount() == 0 || s.pid.ended() != null);
    }

    // ---------------------------------------------------------------- steps

    private void step() throws Exception {
        Node a = stars.get(chance.nextInt(SIZE));
        Node b = stars.get(chance.nextInt(SIZE));
        if (a.dead) {
            replace(a);
            return;
        }
        switch (chance.nextInt(16)) {
            case 0, 1, 2, 3 -> link(a, b);
            case 4 -> unlink(a, b);
            case 5, 6, 7 -> monitor(a, b);
            case 8 -> demonitor(a);
            case 9 -> trap(a, chance.nextInt(3) > 0);
            case 10 -> register(a);
            case 11 -> alias(a);
            case 12, 13 -> reply(a);
            case 14 -> exit(a, b, List.of("normal", "x", "kill").get(chance.nextInt(3)));
            default -> end(a);
        }
    }

    /** Now and then replaces a dead process, when no living one lists it any more. */
    private void replace(Node a) {
        stars.set(a.index, born(a.index));
        watches.removeIf(w -> w.by == a);
    }

    private void link(Node a, Node b) throws Exception {
        tell(a, "links " + b.index, () -> Links.link(Harness.me(), b.pid));
        if (a != b && b.dead && a.traps) {
            a.messages.add("EXIT " + b.index + " noproc");
        } else if (a != b && !b.dead && !a.links.contains(b)) {
            a.links.add(b);
            b.links.add(a);
        }
    }

    private void unlink(Node a, Node b) throws Exception {
        tell(a, "unlinks " + b.index, () -> Links.unlink(Harness.me(), b.pid));
        a.links.remove(b);
        b.links.remove(a);
    }

    private void monitor(Node a, Node b) throws Exception {
        Watch w = new Watch(made++, a, b, MODES.get(chance.nextInt(MODES.size())));
        tell(a, "watches " + b.index + " " + w.mode, () -> w.ref = Monitors.monitor(Harness.me(), b.pid, b.pid, "down" + w.number, Ref.Alias.valueOf(w.mode)));
        watches.add(w);
        if (b.dead) {
            down(w, "noproc");
        } else {
            a.watching.add(w);
        }
    }

    private void down(Watch w, String reason) {
        w.by.watching.remove(w);
        w.by.messages.add("down" + w.number + " " + w.on.index + " " + reason);
        closeWith(w);
    }

    private static void closeWith(Watch w) {
        w.mode = w.mode.endsWith("DEMONITOR") ? "NONE" : w.mode;
    }

    private void demonitor(Node a) throws Exception {
        Watch w = any(a);
        if (w != null && w.on != null) {
            tell(a, "demonitors " + w.number, () -> Monitors.demonitor(Harness.me(), w.ref));
            a.watching.remove(w);
            closeWith(w);
        } else if (w != null) {
            tell(a, "unaliases " + w.number, () -> Aliases.close(Harness.me(), w.ref));
            w.mode = "NONE";
        }
    }

    private Watch any(Node a) {
        List<Watch> own = watches.stream().filter(w -> w.by == a).toList();
        return own.isEmpty() ? null : own.get(chance.nextInt(own.size()));
    }

    private void alias(Node a) throws Exception {
        Watch w = new Watch(made++, a, null, chance.nextBoolean() ? "OPEN" : "REPLY");
        tell(a, "makes alias " + w.number + " " + w.mode, () -> w.ref = Aliases.open(Harness.me(), w.mode.equals("REPLY")));
        watches.add(w);
    }

    private void reply(Node a) throws Exception {
        if (watches.isEmpty()) {
            return;
        }
        Watch w = watches.get(chance.nextInt(watches.size()));
        String message = "reply " + made++;
        tell(a, "sends to " + w.number, () -> Send.send(w.ref, message));
        if (w.mode.equals("NONE") || w.by.dead) {
            return;
        }
        w.by.messages.add(message);
        if (w.mode.equals("REPLY_DEMONITOR")) {
            w.by.watching.remove(w);
        }
        w.mode = w.mode.startsWith("REPLY") ? "NONE" : w.mode;
    }

    private void trap(Node a, boolean on) throws Exception {
        tell(a, "traps " + on, () -> Harness.me().trapExits(on));
        a.traps = on;
    }

    private void register(Node a) throws Exception {
        String name = prefix + a.index;
        if (a.name == null) {
            tell(a, "registers", () -> ProcessTable.register(name, Harness.me().pid()));
            a.name = name;
        } else {
            tell(a, "unregisters", () -> ProcessTable.unregister(name));
            a.name = null;
        }
    }

    private void exit(Node a, Node b, String reason) throws Exception {
        tell(a, "exits " + b.index + " " + reason, () -> Send.exit(b.pid, reason));
        if (!b.dead) {
            signal(b, a, reason, false);
        }
    }

    private void end(Node a) throws Exception {
        tell(a, "ends", null);
        die(a, "normal");
    }

    private void signal(Node to, Node from, String reason, boolean overLink) {
        if (to.dead || overLink && !to.links.remove(from)) {
            return;
        }
        if (!overLink && reason.equals("kill")) {
            die(to, "killed");
        } else if (to.traps) {
            to.messages.add("EXIT " + from.index + " " + reason);
        } else if (!reason.equals("normal") || !overLink && from == to) {
            die(to, reason);
        }
    }

    private void die(Node s, String reason) {
        s.dead = true;
        List<Node> linked = List.copyOf(s.links);
        s.links.clear();
        s.watching.clear();
        stars.forEach(w -> List.copyOf(w.watching).stream().filter(m -> m.on == s && !w.dead).forEach(m -> down(m, reason)));
        linked.forEach(l -> signal(l, s, reason, true));
    }

    // ---------------------------------------------------------------- comparison

    private String expected() {
        StringBuilder text = new StringBuilder();
        for (Node s : stars) {
            text.append(s.index).append(s.dead ? " is dead" : " links " + sorted(s.links.stream().map(l -> l.index))
                    + " watches " + sorted(s.watching.stream().map(w -> w.on.index))
                    + " is watched by " + sorted(stars.stream().flatMap(w -> w.watching.stream()).filter(w -> w.on == s).map(w -> w.by.index))
                    + " traps " + s.traps + " name " + s.name + " got " + sorted(s.messages.stream())).append('\n');
        }
        return text.toString();
    }

    private String actual() {
        StringBuilder text = new StringBuilder();
        for (Node s : stars) {
            LocalProcess p = ProcessTable.live(s.pid);
            text.append(s.index).append(p == null ? " is dead" : living(s, p.info())).append('\n');
        }
        return text.toString();
    }

    private String living(Node s, ProcessInfo info) {
        if (info.name() != null) {
            require(s.pid.equals(ProcessTable.whereis(info.name())), "the name " + info.name() + " is that of another");
        }
        synchronized (s.log) {
            return " links " + sorted(info.links().stream().map(this::indexOf)) + " watches " + sorted(info.monitors().stream().map(this::indexOf))
                    + " is watched by " + sorted(info.monitoredBy().stream().map(this::indexOf))
                    + " traps " + info.trapsExits() + " name " + info.name() + " got " + sorted(s.log.stream());
        }
    }

    private static String sorted(Stream<?> words) {
        return words.map(String::valueOf).sorted().toList().toString();
    }
}
