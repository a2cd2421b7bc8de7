package magnetar.check;

import static magnetar.check.Support.require;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import magnetar.kernel.channel.Buffer;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.channel.Select;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Exit;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.park.Source;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.process.DeadLetters;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.process.MailboxInfo;
import magnetar.kernel.process.Monitors;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.ProcessTable;
import magnetar.kernel.process.Ref;
import magnetar.kernel.process.Refs;
import magnetar.kernel.process.Send;
import magnetar.kernel.process.Spawn;
import magnetar.kernel.process.WhenFull;
import magnetar.kernel.time.Durations;

/** Mailboxes: a message arrives once and in order, a waiting owner is woken, and a bound is kept. */
final class Mailboxes {
    private Mailboxes() {}

    /** A message: its sender, and its number among that sender's messages. */
    private record Letter(int from, int number, Pid answer) {}

    private static Environment noisy() {
        return new Support.Noisy(4, 3_000);
    }

    /** Senders that each wait for an answer before they send again. No wake-up is lost. */
    static void wakeUp() throws Exception {
        Harness.in(noisy(), () -> {
            int senders = 3;
            int rounds = 3_000;
            Pid owner = Harness.spawn(() -> {
                for (int i = 0; i < senders * rounds; i++) {
                    Letter letter = (Letter) Harness.next();
                    Send.send(letter.answer, letter.number);
                }
            });
            List<Pid> all = new ArrayList<>(List.of(owner));
            for (int s = 0; s < senders; s++) {
                int from = s;
                all.add(Harness.spawn(() -> {
                    for (int i = 0; i < rounds; i++) {
                        Send.send(owner, new Letter(from, i, Harness.me().pid()));
                        require(Harness.next().equals(i), "the answer to another letter");
                    }
                }));
            }
            for (Pid pid : all) {
                Harness.finished(pid);
            }
        });
    }

    /**
     * Messages of several senders are received once each, and in the order of each sender, whichever the
     * owner asks for first.
     */
    static void order() throws Exception {
        int senders = 4;
        int letters = 4_000;
        Harness.in(noisy(), () -> {
            Pid owner = Harness.spawn(() -> receiveAll(senders, letters));
            List<Pid> all = new ArrayList<>();
            for (int s = 0; s < senders; s++) {
                int from = s;
                all.add(Harness.spawn(() -> {
                    for (int i = 0; i < letters; i++) {
                        Send.send(owner, new Letter(from, i, null));
                    }
                }));
            }
            for (Pid pid : all) {
                Harness.finished(pid);
            }
            Harness.finished(owner);
        });
    }

    private static void receiveAll(int senders, int letters) throws InterruptedException {
        ThreadLocalRandom chance = ThreadLocalRandom.current();
        int[] next = new int[senders];
        for (int received = 0; received < senders * letters; ) {
            int wanted = chance.nextInt(2 * senders);
            Letter letter = (Letter) Harness.take(m -> wanted >= senders || ((Letter) m).from == wanted, 1 + chance.nextInt(50_000));
            if (letter != null) {
                require(letter.number == next[letter.from]++, "letter " + letter + " instead of " + (next[letter.from] - 1));
                received++;
            }
        }
        require(Harness.poll() == null, "a letter too many");
    }

    private static void receiveInOrder(int senders, int letters) throws InterruptedException {
        int[] next = new int[senders];
        for (int i = 0; i < senders * letters; i++) {
            Letter letter = (Letter) Harness.next();
            require(letter.number == next[letter.from]++, "letter " + letter + " instead of " + (next[letter.from] - 1));
        }
        require(Harness.poll() == null, "a letter too many");
    }

    /**
     * A wait that timed out, was interrupted, or ended by a channel leaves nothing in the mailbox: the next
     * wait parks.
     */
    static void ghosts() throws Exception {
        Channel<Integer> channel = Channel.rendezvous();
        List<Support.Body> waits = List.of(
                () -> require(Harness.take(m -> true, 2_000_000) == null, "the time runs out"),
                () -> interrupted(() -> Harness.next()),
                () -> require(beside(channel, 2_000_000) == null, "the time runs out"),
                () -> interrupted(() -> beside(channel, Durations.INFINITE)),
                () -> require(beside(channel, Durations.INFINITE).equals(7), "the channel is first"));
        for (int i = 0; i < waits.size(); i++) {
            Support.Body wait = waits.get(i);
            AtomicBoolean again = new AtomicBoolean();
            Pid pid = Harness.spawn(() -> {
                wait.run();
                again.set(true);
                require(Harness.next().equals("message"), "the message comes");
            });
            if (i == 1 || i == 3) {
                Harness.parked(pid);
                ProcessTable.live(pid).info().thread().interrupt();
            }
            if (i == 4) {
                channel.send(7);
            }
            Support.until("wait " + i + " is over", again::get);
            Harness.parked(pid);
            Send.send(pid, "message");
            Harness.finished(pid);
        }
    }

    private static void interrupted(Support.Body wait) throws Throwable {
        try {
            wait.run();
        } catch (InterruptedException e) {
            return;
        }
        throw new AssertionError("it was not interrupted");
    }

    /** A message, or a value from the channel; null if time runs out. */
    private static Object beside(Channel<?> channel, long nanos) throws InterruptedException {
        for (;;) {
            Object message = Harness.poll();
            if (message != null) {
                return message;
            }
            Select.Chosen chosen = Select.over(List.of(channel)).awaitBeside(Harness.me().source(), nanos);
            if (chosen == null || chosen.index() >= 0) {
                return chosen == null ? null : chosen.value();
            }
        }
    }

    /**
     * An owner that waits for messages and a channel at once takes each value and each message once. Each put
     * gets the right result.
     */
    static void besideChannels() throws Exception {
        overtaken();
        int each = 6_000;
        Channel<Integer> channel = Channel.rendezvous();
        AtomicInteger put = new AtomicInteger();
        Environment environment = noisy();
        Harness.in(environment, () -> {
            AtomicInteger got = new AtomicInteger();
            AtomicInteger messages = new AtomicInteger();
            Pid owner = Harness.spawn(() -> {
                for (boolean open = true; open || messages.get() < each; ) {
                    Object next = beside(channel, 1 + ThreadLocalRandom.current().nextInt(200_000));
                    open &= !"no more".equals(next);
                    (next instanceof Integer ? got : messages).addAndGet(next == null || next.equals("no more") ? 0 : 1);
                }
            });
            Pid sender = Harness.spawn(() -> {
                for (int i = 0; i < each; i++) {
                    Send.send(owner, "message");
                    spin(ThreadLocalRandom.current().nextInt(100));
                }
            });
            Support.join(Support.fiber(environment, () -> {
                for (int i = 0; i < each; i++) {
                    put.addAndGet(channel.send(i) ? 1 : 0);
                    spin(ThreadLocalRandom.current().nextInt(100));
                }
            }));
            Harness.finished(sender);
            Send.send(owner, "no more");
            Harness.finished(owner);
            require(got.get() == put.get(), put + " values were put, " + got + " arrived");
            require(put.get() == each, "of " + each + " values " + put + " were put");
            require(messages.get() == each, "of " + each + " messages " + messages + " arrived");
        });
    }

    /** A waiter beside the mailbox. */
    private static final class Probe extends Waiter {
        final AtomicInteger completed = new AtomicInteger();

        @Override
        public long id() {
            return 1;
        }

        @Override
        public void complete(Object source, Object result) {
            completed.incrementAndGet();
        }
    }

    /**
     * A message completes the owner's waiter once, and does not complete a waiter that another event has
     * claimed.
     */
    static void claims() throws Exception {
        for (int bound : new int[] {0, 3}) {
            CountDownLatch done = new CountDownLatch(1);
            Pid pid = bounded(bound, WhenFull.BLOCK, () -> done.await());
            Source mailbox = ProcessTable.live(pid).source();
            Probe claimed = new Probe();
            require(mailbox.enlist(claimed) && claimed.claim(), "it is empty");
            Send.send(pid, 1);
            require(claimed.completed.get() == 0, "a message completed one that was claimed");
            require(!mailbox.enlist(new Probe()), "there is a message");
            Pid other = bounded(bound, WhenFull.BLOCK, () -> done.await());
            mailbox = ProcessTable.live(other).source();
            Probe waits = new Probe();
            require(mailbox.enlist(waits), "it is empty");
            Send.send(other, 1);
            Send.send(other, 2);
            require(waits.completed.get() == 1 && !waits.isUnclaimed(), "two messages completed one " + waits.completed + " times");
            done.countDown();
            Harness.finished(pid);
            Harness.finished(other);
        }
    }

    /**
     * The channel is first by a hair. Its value counts, although there is a message when the mailbox is
     * checked.
     */
    private static void overtaken() throws Exception {
        Channel<Integer> channel = Channel.rendezvous();
        Source mailbox = new Source() {
            @Override
            public boolean enlist(Waiter waiter) {
                try {
                    Support.join(Support.platform(Environment.REAL, () -> channel.send(7)));
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
                return false;
            }

            @Override
            public void delist(Waiter waiter) {}
        };
        Support.join(Support.fiber(Environment.REAL, () -> {
            Select.Chosen chosen = Select.over(List.of(channel)).awaitBeside(mailbox, Durations.INFINITE);
            require(chosen.index() == 0 && chosen.value().equals(7), "the channel had given 7, and the answer is " + chosen);
        }));
    }

    private static void spin(int turns) {
        for (int n = turns; n > 0; n--) {
            Thread.onSpinWait();
        }
    }

    /**
     * A receive that asks for a reference skips the messages that were there when it was made, and sees all
     * later ones.
     */
    static void marks() throws Exception {
        for (int older : new int[] {0, 1, 2, 1_000, 100_000}) {
            AtomicReference<Ref> made = new AtomicReference<>();
            Pid pid = Harness.spawn(() -> {
                for (int i = 0; i < older; i++) {
                    Send.send(Harness.me().pid(), i);
                }
                Ref ref = Refs.make(Harness.me());
                AtomicInteger looks = new AtomicInteger();
                long mark = Refs.mark(Harness.me(), ref);
                require(Harness.me().receive(m -> m, 0, mark) == null, "of " + older + " older messages one was looked at");
                made.set(ref);
                Support.until("the answer is there", () -> Harness.me().mailboxInfo().messages() > older);
                if (older % 2 == 0) {
                    Harness.take(m -> false, 0); // it is in the list now
                }
                Object answer = Harness.me().receive(m -> looks.incrementAndGet() > 0 && m.equals(ref) ? m : null, Durations.INFINITE, mark);
                require(answer.equals(ref) && looks.get() == 1, "behind " + older + " messages " + looks + " were looked at for " + answer);
                require(older == 0 || Harness.poll().equals(0), "the oldest message is still there");
            });
            Support.until("the reference is made", () -> made.get() != null || ProcessTable.live(pid) == null);
            Send.send(pid, made.get());
            Harness.finished(pid);
        }
    }

    /**
     * A process that has to exit gets no more messages. A message to it is a dead letter, and a receive in
     * its clean-up ends, even one that waits already.
     */
    static void closed() throws Exception {
        for (boolean waiting : new boolean[] {false, true}) {
            for (int bound : new int[] {0, 2}) {
                closed(waiting, bound);
            }
        }
    }

    private static void closed(boolean waiting, int bound) throws Exception {
        CountDownLatch inCleanUp = new CountDownLatch(1);
        CountDownLatch sent = new CountDownLatch(1);
        AtomicInteger ended = new AtomicInteger();
        Spawn.Options options = new Spawn.Options("check").bound(bound, WhenFull.BLOCK);
        Pid pid = Spawn.spawn(options, Harness.call(() -> Fiber.current().shield(() -> {
            inCleanUp.countDown();
            if (!waiting) {
                uninterruptibly(sent);
            }
            for (int i = 0; i < 2; i++) {
                try {
                    if (i == 0) {
                        Harness.next();
                    } else {
                        beside(Channel.rendezvous(), Durations.INFINITE);
                    }
                } catch (Exit e) {
                    ended.incrementAndGet();
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            }
        }))).pid();
        inCleanUp.await();
        if (waiting) {
            Harness.parked(pid);
        }
        Send.exit(pid, "over");
        require(!pid.isAlive(), "it was told to exit");
        if (!waiting) {
            long before = DeadLetters.count();
            for (int i = 0; i < 3; i++) {
                Send.send(pid, i);
            }
            require(DeadLetters.count() == before + 3, "of three late messages " + (DeadLetters.count() - before) + " are dead letters");
            sent.countDown();
        }
        require("over".equals(Harness.reasonOf(pid)) && ended.get() == 2, "two receives of an exiting process: " + ended + " ended by exit");
    }

    private static void uninterruptibly(CountDownLatch latch) {
        boolean interrupted = false;
        while (latch.getCount() > 0) {
            try {
                latch.await();
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    // ---------------------------------------------------------------- bounds

    private static Pid bounded(int capacity, WhenFull policy, Support.Body body) {
        Spawn.Options options = new Spawn.Options("check").bound(capacity, policy);
        return Spawn.spawn(options, Harness.call(body)).pid();
    }

    /**
     * What each policy keeps of five messages with room for three, of which the owner has moved two to its
     * list. Signals are always added.
     */
    static void policies() throws Exception {
        same(List.of(0, 1, 2, "down"), kept(WhenFull.DROP_NEW, 3), "the newest are dropped");
        same(List.of(2, 3, 4, "down"), kept(WhenFull.DROP_OLD, 3), "the oldest are dropped");
        same(List.of(0, 1, 2, "refused", "refused", "down"), kept(WhenFull.FAIL, 3), "more is refused");
        same(List.of(0, 1, 2, 3), dropsWhileLooking(), "the owner takes what had to go");
        same(List.of("down", "down", 3), signalsSpared(), "signals are no ordinary messages");
    }

    /**
     * At each instant the messages present and the messages dropped add up to all that were sent. The owner
     * scans and takes none.
     */
    static void dropped() throws Exception {
        Environment environment = noisy();
        Harness.in(environment, () -> {
            AtomicBoolean over = new AtomicBoolean();
            Pid pid = bounded(2, WhenFull.DROP_OLD, () -> {
                while (!over.get()) {
                    Harness.take(m -> false, 0);
                }
            });
            for (int sent = 1; sent <= 20_000; sent++) {
                Send.send(pid, sent);
                MailboxInfo info = ProcessTable.live(pid).mailboxInfo();
                long all = info.messages() + info.dropped();
                require(all == sent, "of " + sent + " messages " + info.messages() + " are there and " + info.dropped() + " were dropped");
            }
            over.set(true);
            Harness.finished(pid);
        });
    }

    private static void same(Object expected, Object actual, String what) {
        require(expected.equals(actual), what + ": " + actual + " instead of " + expected);
    }

    private static List<Object> kept(WhenFull policy, int capacity) throws Exception {
        List<Object> kept = new ArrayList<>();
        AtomicReference<MailboxInfo> info = new AtomicReference<>();
        CountDownLatch sent = new CountDownLatch(1);
        CountDownLatch looked = new CountDownLatch(1);
        CountDownLatch two = new CountDownLatch(1);
        Pid pid = bounded(capacity, policy, () -> {
            Pid other = Harness.spawn(() -> Harness.next());
            two.await();
            Monitors.monitor(Harness.me(), other, other, "down", Ref.Alias.NONE);
            Harness.take(m -> false, 0); // the first two are in the list now
            looked.countDown();
            sent.await();
            info.set(Harness.me().mailboxInfo());
            Send.exit(other, "gone");
            Support.until("it is dead", () -> ProcessTable.live(other) == null);
            Support.until("the signal is there", () -> Harness.me().mailboxInfo().messages() == capacity + 1);
            for (Object m = Harness.poll(); m != null; m = Harness.poll()) {
                kept.add(m instanceof List<?> l ? l.getFirst() : m);
            }
        });
        List<Object> refused = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            try {
                Send.send(pid, i);
            } catch (IllegalArgumentException e) {
                refused.add("refused");
            }
            if (i == 1) {
                two.countDown();
                looked.await();
            }
        }
        sent.countDown();
        Harness.finished(pid);
        require(info.get().messages() == capacity, "it holds " + info.get());
        kept.addAll(kept.size() - 1, refused);
        return kept;
    }

    /**
     * With room for three, message 3 is sent while the owner scans 0, 1 and 2. The owner takes 0, and the
     * message that 3 displaced is gone.
     */
    private static List<Object> dropsWhileLooking() throws Exception {
        List<Object> got = new ArrayList<>();
        Pid pid = bounded(3, WhenFull.DROP_OLD, () -> {
            Pid self = Harness.me().pid();
            AtomicBoolean first = new AtomicBoolean(true);
            CountDownLatch ready = new CountDownLatch(3);
            for (int i = 0; i < 3; i++) {
                Send.send(self, i);
                ready.countDown();
            }
            Object taken = Harness.take(m -> {
                if (first.getAndSet(false)) {
                    sendFromElsewhere(self, 3);
                }
                return true;
            });
            got.add(taken);
            for (Object m = Harness.poll(); m != null; m = Harness.poll()) {
                got.add(m);
            }
        });
        Harness.finished(pid);
        return got;
    }

    private static void sendFromElsewhere(Pid to, Object message) {
        try {
            Harness.finished(Harness.spawn(() -> Send.send(to, message)));
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** With room for three, and two signals in it: of two more messages the older one is dropped. */
    private static List<Object> signalsSpared() throws Exception {
        List<Object> got = new ArrayList<>();
        CountDownLatch ready = new CountDownLatch(1);
        CountDownLatch sent = new CountDownLatch(1);
        Pid pid = bounded(3, WhenFull.DROP_OLD, () -> {
            for (int i = 0; i < 2; i++) {
                Pid dead = Harness.spawn(() -> {});
                Harness.finished(dead);
                Monitors.monitor(Harness.me(), dead, dead, "down", Ref.Alias.NONE);
            }
            ready.countDown();
            sent.await();
            for (Object m = Harness.poll(); m != null; m = Harness.poll()) {
                got.add(m instanceof List<?> l ? l.getFirst() : m);
            }
        });
        ready.await();
        for (int i = 1; i <= 3; i++) {
            Send.send(pid, i);
        }
        sent.countDown();
        Harness.finished(pid);
        return got;
    }

    /**
     * A thousand senders wait for room for three. The mailbox never holds more, and all messages arrive in
     * the order of each sender. A sender that waits alone is woken too.
     */
    static void manySenders() throws Exception {
        send(1_000, 5);
        send(1, 100_000);
    }

    private static void send(int senders, int letters) throws Exception {
        AtomicBoolean over = new AtomicBoolean();
        AtomicInteger most = new AtomicInteger();
        Harness.in(new Support.Noisy(64, 3_000), () -> {
            Pid owner = bounded(3, WhenFull.BLOCK, () -> receiveInOrder(senders, letters));
            LocalProcess process = ProcessTable.live(owner);
            Thread looker = Support.platform(Environment.REAL, () -> {
                while (!over.get()) {
                    most.accumulateAndGet(process.mailboxInfo().messages(), Math::max);
                    LockSupport.parkNanos(20_000);
                }
            });
            List<Pid> all = new ArrayList<>();
            for (int s = 0; s < senders; s++) {
                int from = s;
                all.add(Harness.spawn(() -> {
                    for (int i = 0; i < letters; i++) {
                        Send.send(owner, new Letter(from, i, null));
                    }
                }));
            }
            for (Pid pid : all) {
                Harness.finished(pid);
            }
            Harness.finished(owner);
            over.set(true);
            Support.join(looker);
            require(most.get() <= 3, "it held " + most + " messages");
        });
    }

    /** An environment in which a parked thread that was woken continues only when it is allowed to. */
    private static final class Held extends Environment {
        final CountDownLatch let = new CountDownLatch(1);
        final AtomicInteger woken = new AtomicInteger();

        @Override
        public void park(Object waiter) {
            super.park(waiter);
            woken.incrementAndGet();
            uninterruptibly(let);
        }
    }

    /** A sender that was woken because there is room, and ends before it sends, passes the wake-up on. */
    static void givingUp() throws Exception {
        CountDownLatch take = new CountDownLatch(1);
        Pid owner = bounded(1, WhenFull.BLOCK, () -> {
            take.await();
            require(Harness.next().equals("first") && Harness.next().equals("third"), "the message of who waits on comes");
        });
        Send.send(owner, "first");
        Held held = new Held();
        AtomicReference<Pid> second = new AtomicReference<>();
        Support.join(Support.fiber(held, () -> second.set(Harness.spawn(() -> Send.send(owner, "second")))));
        Support.until("the second waits", () -> ProcessTable.live(owner).mailboxInfo().senders() == 1);
        Pid third = Harness.spawn(() -> Send.send(owner, "third"));
        Support.until("the third waits", () -> ProcessTable.live(owner).mailboxInfo().senders() == 2);
        take.countDown();
        Support.until("the second was woken", () -> held.woken.get() > 0);
        Send.exit(second.get(), "gives up");
        held.let.countDown();
        require("gives up".equals(Harness.reasonOf(second.get())), "the second ends");
        Harness.finished(third);
        Harness.finished(owner);
    }

    // ---------------------------------------------------------------- stress

    /**
     * Many processes send, receive selectively, time out and are interrupted at random. Then everything is
     * counted.
     */
    static void stress(int processes, int operations) throws Exception {
        for (int capacity : new int[] {0, 2}) {
            Harness.in(new Support.Noisy(16, 5_000), () -> new Post(processes / 2, operations, capacity).run());
        }
    }

    private static final class Post {
        private final int processes;
        private final int operations;
        private final int capacity;
        private final Pid[] pids;
        private final Thread[] threads;
        private final byte[] accepted;
        private final AtomicInteger[] received;
        private final CountDownLatch begin = new CountDownLatch(1);
        private final CountDownLatch worked;
        private final Channel<Integer> channel = Channel.of(Buffer.unbounded());

        Post(int processes, int operations, int capacity) {
            this.processes = processes;
            this.operations = operations;
            this.capacity = capacity;
            this.pids = new Pid[processes];
            this.threads = new Thread[processes];
            this.accepted = new byte[processes * operations];
            this.received = new AtomicInteger[processes * operations];
            this.worked = new CountDownLatch(processes);
            for (int i = 0; i < received.length; i++) {
                received[i] = new AtomicInteger();
            }
        }

        void run() throws Exception {
            for (int i = 0; i < processes; i++) {
                int n = i;
                pids[i] = bounded(capacity, WhenFull.BLOCK, () -> work(n));
            }
            begin.countDown();
            torment();
            for (Pid pid : pids) {
                Thread.interrupted();
                Send.send(pid, "stop");
            }
            for (Pid pid : pids) {
                Harness.finished(pid);
            }
            count();
        }

        private void work(int n) throws Exception {
            begin.await();
            threads[n] = Thread.currentThread();
            for (int id = n * operations; id < (n + 1) * operations; id++) {
                try {
                    operate(n, id);
                } catch (InterruptedException e) {
                    // the operation had no effect; count() would notice one
                }
            }
            worked.countDown();
            for (Object m = null; !"stop".equals(m); ) {
                try {
                    m = Harness.next();
                    receive(m);
                } catch (InterruptedException e) {
                    // a late message
                }
            }
        }

        private void operate(int n, int id) throws InterruptedException {
            ThreadLocalRandom chance = ThreadLocalRandom.current();
            int parity = chance.nextInt(2);
            switch (chance.nextInt(10)) {
                case 0, 1, 2, 3 -> send(n, id, chance.nextInt(processes));
                case 4 -> receive(Harness.poll());
                case 5, 6 -> receive(Harness.take(m -> m instanceof Integer i && i % 2 == parity, chance.nextInt(1_500_000)));
                case 7 -> receive(Harness.next());
                case 8 -> {
                    channel.sendNow(-1);
                    receive(beside(channel, chance.nextInt(1_500_000)));
                }
                default -> interruptAny();
            }
        }

        private void send(int n, int id, int to) throws InterruptedException {
            if (to != n || capacity == 0) {
                Send.send(pids[to], id);
                accepted[id] = 1;
            }
        }

        private void receive(Object m) {
            if (m instanceof Integer id && id >= 0) {
                received[id].incrementAndGet();
            }
        }

        private void interruptAny() {
            Thread t = threads[ThreadLocalRandom.current().nextInt(processes)];
            if (t != null) {
                t.interrupt();
            }
        }

        /** Interrupts the processes that still work, until all have ended. */
        private void torment() {
            Support.until("all have worked; left: " + worked, 40, () -> {
                for (int i = 0; i < 1 + processes / 20; i++) {
                    interruptAny();
                }
                if (worked.getCount() < processes / 10 + 1) {
                    Stream.of(threads).filter(Objects::nonNull).forEach(Thread::interrupt); // one of ten thousand may not have begun
                }
                return worked.getCount() == 0;
            });
        }

        private void count() {
            int total = 0;
            for (int id = 0; id < accepted.length; id++) {
                int out = received[id].get();
                require(out == accepted[id], "message " + id + " was accepted " + accepted[id] + " times and received " + out + " times");
                total += out;
            }
            require(total > accepted.length / 20, "only " + total + " messages were exchanged");
        }
    }
}
