package magnetar.check;

import static magnetar.check.Support.require;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.function.Consumer;
import magnetar.kernel.channel.Buffer;
import magnetar.kernel.channel.Callback;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.channel.ChannelInfo;
import magnetar.kernel.channel.Port;
import magnetar.kernel.channel.Select;
import magnetar.kernel.channel.Transform;
import magnetar.kernel.channel.TransformChannel;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Parked;

/**
 * Many fibers put, take, select, time out and are interrupted at random over a few channels. Then everything
 * is counted.
 *
 * <p>Each value is put once. An accepted value was received exactly once. A value whose put was refused,
 * timed out or interrupted was never received. No node is left in a queue. During the run, no channel has
 * both a taker and a value for it.
 */
public final class Stress {
    private static final int CHANNELS = 3;

    /** What a kind of channel promises. */
    private enum Kind {
        RENDEZVOUS(true), FIXED(true), UNBOUNDED(true), TRANSFORMING(true), DROPPING(false), SLIDING(false);

        final boolean lossless;

        Kind(boolean lossless) {
            this.lossless = lossless;
        }

        Channel<Integer> channel() {
            return switch (this) {
                case RENDEZVOUS -> Channel.rendezvous();
                case FIXED -> Channel.of(Buffer.fixed(3));
                case UNBOUNDED -> Channel.of(Buffer.unbounded());
                case TRANSFORMING -> TransformChannel.of(Buffer.fixed(3), new Same());
                case DROPPING -> Channel.of(Buffer.dropping(3));
                case SLIDING -> Channel.of(Buffer.sliding(3));
            };
        }
    }

    /** A transform that passes values on. A channel with it runs user code under a lock that parks. */
    private static final class Same implements Transform {
        @Override
        public boolean add(Consumer<Object> sink, Object value) {
            sink.accept(value);
            return false;
        }

        @Override
        public void complete(Consumer<Object> sink) {}
    }

    private final Kind kind;
    private final int fibers;
    private final int operations;
    private final Environment environment;
    private final List<Channel<Integer>> channels = new ArrayList<>();
    private final AtomicIntegerArray accepted;
    private final AtomicIntegerArray received;
    private final AtomicInteger callbacks = new AtomicInteger();
    private final Thread[] threads;
    private final CountDownLatch ended;

    private Stress(Kind kind, int fibers, int operations, Environment environment) {
        this.kind = kind;
        this.fibers = fibers;
        this.operations = operations;
        this.environment = environment;
        this.accepted = new AtomicIntegerArray(fibers * operations);
        this.received = new AtomicIntegerArray(fibers * operations);
        this.threads = new Thread[fibers];
        this.ended = new CountDownLatch(fibers);
        for (int i = 0; i < CHANNELS; i++) {
            channels.add(kind.channel());
        }
    }

    /** All kinds of channels, with so many fibers in all, and switch points that pause. */
    public static void run(int fibers, int operations) throws Exception {
        Simulated.simulate(true);
        try {
            for (Kind kind : Kind.values()) {
                new Stress(kind, fibers / Kind.values().length, operations, new Support.Noisy(16, 5_000)).run();
            }
        } finally {
            Simulated.simulate(false);
        }
    }

    private void run() throws Exception {
        for (int i = 0; i < fibers; i++) {
            int first = i * operations;
            threads[i] = Thread.ofVirtual().unstarted(() -> work(first));
            magnetar.kernel.fiber.Fibers.adopt(threads[i], environment);
        }
        for (Thread t : threads) {
            t.start();
        }
        torment();
        finish();
        count();
    }

    // ---------------------------------------------------------------- the fibers

    private void work(int first) {
        try {
            for (int id = first; id < first + operations; id++) {
                operate(id);
            }
        } catch (Throwable t) {
            Support.failure = t;
        } finally {
            ended.countDown();
        }
    }

    private void operate(int id) {
        ThreadLocalRandom chance = ThreadLocalRandom.current();
        try {
            switch (chance.nextInt(16)) {
                case 0, 1, 2 -> accept(id, any().send(id));
                case 3, 4, 5 -> receive(any().receive());
                case 6 -> accept(id, any().sendWithin(id, chance.nextInt(1_500_000)));
                case 7 -> receive(any().receiveWithin(chance.nextInt(1_500_000)));
                case 8 -> accept(id, any().sendNow(id));
                case 9 -> receive(any().receiveNow());
                case 10, 11 -> chosen(id, Select.of(branches(id)).await());
                case 12, 13 -> chosen(id, Select.of(branches(id)).awaitWithin(chance.nextInt(1_500_000)));
                case 14 -> interruptAny(chance);
                default -> callBack(id, chance);
            }
        } catch (InterruptedException e) {
            // the operation had no effect; count() would notice one
        }
    }

    private void interruptAny(ThreadLocalRandom chance) {
        threads[chance.nextInt(fibers)].interrupt();
    }

    private void callBack(int id, ThreadLocalRandom chance) {
        callbacks.incrementAndGet();
        Object now = switch (chance.nextInt(3)) {
            case 0 -> any().sendAsync((Object) id, new Callback(r -> called(() -> accept(id, r)), true));
            case 1 -> any().receiveAsync(new Callback(r -> called(() -> receive(r)), true));
            default -> Select.of(branches(id)).whenChosen(r -> called(() -> chosen(id, (Select.Chosen) r)), true);
        };
        if (now instanceof Select.Chosen c) {
            called(() -> chosen(id, c));
        } else if (now instanceof Boolean b) {
            called(() -> accept(id, b));
        } else if (now instanceof Integer i) {
            called(() -> receive(i));
        }
    }

    private void called(Runnable account) {
        account.run();
        callbacks.decrementAndGet();
    }

    /** A take and a put on two of the channels, and sometimes a take from the third. */
    private Select.Operation[] branches(int id) {
        int c = ThreadLocalRandom.current().nextInt(CHANNELS);
        Select.Operation take = Select.take(channels.get(c));
        Select.Operation put = Select.put(channels.get((c + 1) % CHANNELS), id);
        return (id & 1) == 0
                ? new Select.Operation[] {take, put}
                : new Select.Operation[] {put, take, Select.take(channels.get((c + 2) % CHANNELS))};
    }

    private void chosen(int id, Select.Chosen chosen) {
        if (chosen != null && chosen.value() instanceof Boolean b) {
            accept(id, b);
        } else if (chosen != null) {
            receive(chosen.value());
        }
    }

    private void accept(int id, Object answer) {
        if (answer == Boolean.TRUE) {
            accepted.incrementAndGet(id);
        }
    }

    private void receive(Object value) {
        if (value instanceof Integer i) {
            received.incrementAndGet(i);
        }
    }

    private Channel<Integer> any() {
        return channels.get(ThreadLocalRandom.current().nextInt(CHANNELS));
    }

    // ---------------------------------------------------------------- the end

    /** Interrupts the fibers that still work until all have ended, and checks the channels meanwhile. */
    private void torment() throws InterruptedException {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (!ended.await(300, TimeUnit.MICROSECONDS)) {
            channels.forEach(this::inspect);
            for (int i = 0; i < 1 + fibers / 20; i++) {
                interruptAny(ThreadLocalRandom.current());
            }
            if (ended.getCount() < fibers / 10 + 1) {
                for (Thread t : threads) {
                    t.interrupt();
                }
            }
            require(System.nanoTime() < limit, kind + ": fibers hang: " + hanging());
            require(Support.failure == null, kind + ": a fiber failed: " + Support.failure);
        }
    }

    private void inspect(Channel<Integer> c) {
        ChannelInfo info = c.info();
        boolean value = info.count() > 0 || !info.putters().isEmpty();
        require(info.takers().isEmpty() || !value, kind + ": a taker waits though there is a value: " + info);
    }

    private String hanging() {
        StringBuilder text = new StringBuilder();
        for (Thread t : threads) {
            if (t.isAlive() && text.length() < 500) {
                text.append(t.getState()).append(' ').append(Parked.waitOf(t)).append("; ");
            }
        }
        return text.toString();
    }

    private void finish() throws InterruptedException {
        for (Channel<Integer> c : channels) {
            ChannelInfo info = c.info();
            info.takers().forEach(t -> require(t == null, kind + ": a ghost taker: " + t));
            info.putters().forEach(t -> require(t == null, kind + ": a ghost putter: " + t));
            c.close();
            for (Integer i = c.receive(); i != null; i = c.receive()) {
                receive(i);
            }
        }
        Support.until(kind + ": every callback has been called; missing: " + callbacks, () -> callbacks.get() == 0);
        for (Channel<Integer> c : channels) {
            require(Support.nodes(c) == 0, kind + ": nodes were left behind: " + Support.nodes(c));
        }
    }

    private void count() {
        int total = 0;
        for (int id = 0; id < fibers * operations; id++) {
            int in = accepted.get(id);
            int out = received.get(id);
            require(in <= 1 && out <= in, kind + ": value " + id + " was accepted " + in + " and received " + out + " times");
            require(!kind.lossless || out == in, kind + ": value " + id + " was lost");
            total += out;
        }
        require(total > fibers * operations / 20, kind + ": only " + total + " values were exchanged");
    }
}
