package magnetar.peer;

import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.AbstractBehavior;
import org.apache.pekko.actor.typed.javadsl.ActorContext;
import org.apache.pekko.actor.typed.javadsl.Behaviors;

/** The workloads of Savina and skynet by typed actors; each checks its result. The actor at the top is the parent of all others, which stop with it. */
final class PekkoSavina {
    private PekkoSavina() {}

    static final Map<String, Peer.Workload> WORKLOADS = Map.of(
            "threadring", PekkoSavina::threadring,
            "big", PekkoSavina::big,
            "skynet", PekkoSavina::skynet,
            "uct", PekkoSavina::uct);

    /** Nanoseconds until the behavior, told where to put its answer, gives the expected one. */
    private static double timed(long expected, Function<CompletableFuture<Long>, Behavior<?>> top) throws Exception {
        return Peer.timed(() -> {
            CompletableFuture<Long> answer = new CompletableFuture<>();
            Pekko.spawn(top.apply(answer));
            long found = answer.join();
            Peer.check(found == expected, found + " instead of " + expected);
        });
    }

    private static <T> List<ActorRef<T>> spawnAll(ActorContext<?> context, int n, java.util.function.IntFunction<Behavior<T>> behavior) {
        return IntStream.range(0, n).mapToObj(i -> context.spawnAnonymous(behavior.apply(i))).toList();
    }

    // threadring

    private sealed interface RingMessage {}

    private record Next(ActorRef<RingMessage> node) implements RingMessage {}

    private record Hops(int left) implements RingMessage {}

    private static double threadring(int... n) throws Exception {
        return timed(n[1] % n[0], answer -> Behaviors.<Integer>setup(context -> {
            List<ActorRef<RingMessage>> nodes = spawnAll(context, n[0], i -> new RingNode(i, context.getSelf()).behavior());
            for (int i = 0; i < n[0]; i++) {
                nodes.get(i).tell(new Next(nodes.get((i + 1) % n[0])));
            }
            nodes.get(0).tell(new Hops(n[1]));
            return Behaviors.receiveMessage(last -> {
                answer.complete((long) last);
                return Behaviors.stopped();
            });
        }));
    }

    private static final class RingNode {
        private final int number;
        private final ActorRef<Integer> boss;
        private ActorRef<RingMessage> next;

        RingNode(int number, ActorRef<Integer> boss) {
            this.number = number;
            this.boss = boss;
        }

        Behavior<RingMessage> behavior() {
            return Behaviors.receiveMessage(message -> {
                switch (message) {
                    case Next(var node) -> next = node;
                    case Hops(int left) when left == 0 -> boss.tell(number);
                    case Hops(int left) -> next.tell(new Hops(left - 1));
                }
                return Behaviors.same();
            });
        }
    }

    // big

    private sealed interface BigMessage {}

    private record Others(List<ActorRef<BigMessage>> all) implements BigMessage {}

    private record Ping(ActorRef<BigMessage> from) implements BigMessage {}

    private enum BigSignal implements BigMessage {
        PONG,
        STOP
    }

    private sealed interface BigReport {}

    private record Done() implements BigReport {}

    private record Answered(long pings) implements BigReport {}

    private static double big(int... n) throws Exception {
        return timed((long) n[0] * n[1], answer -> Behaviors.<BigReport>setup(context -> {
            List<ActorRef<BigMessage>> workers = spawnAll(context, n[0], i -> BigWorker.behavior(i, n[1], context.getSelf()));
            workers.forEach(worker -> worker.tell(new Others(workers)));
            int[] reports = new int[1];
            long[] pings = new long[1];
            return Behaviors.receiveMessage(report -> {
                reports[0]++;
                if (report instanceof Answered(long answered)) {
                    pings[0] += answered;
                }
                if (reports[0] == n[0]) {
                    workers.forEach(worker -> worker.tell(BigSignal.STOP));
                }
                if (reports[0] < 2 * n[0]) {
                    return Behaviors.same();
                }
                answer.complete(pings[0]);
                return Behaviors.stopped();
            });
        }));
    }

    private static final class BigWorker {
        private final int number;
        private final ActorRef<BigMessage> self;
        private final ActorRef<BigReport> boss;
        private final SplittableRandom random;
        private List<ActorRef<BigMessage>> all;
        private int left;
        private long answered;

        private BigWorker(int number, int pings, ActorRef<BigMessage> self, ActorRef<BigReport> boss) {
            this.number = number;
            this.left = pings;
            this.self = self;
            this.boss = boss;
            this.random = new SplittableRandom(number);
        }

        static Behavior<BigMessage> behavior(int number, int pings, ActorRef<BigReport> boss) {
            return Behaviors.setup(context -> {
                BigWorker worker = new BigWorker(number, pings, context.getSelf(), boss);
                return Behaviors.receiveMessage(worker::on);
            });
        }

        private void ping() {
            int other = random.nextInt(all.size() - 1);
            all.get(other >= number ? other + 1 : other).tell(new Ping(self));
        }

        private Behavior<BigMessage> on(BigMessage message) {
            switch (message) {
                case Others(var workers) -> {
                    all = workers;
                    ping();
                }
                case Ping(var from) -> {
                    from.tell(BigSignal.PONG);
                    answered++;
                }
                case BigSignal.PONG -> {
                    if (--left == 0) {
                        boss.tell(new Done());
                    } else {
                        ping();
                    }
                }
                case BigSignal.STOP -> {
                    boss.tell(new Answered(answered));
                    return Behaviors.stopped();
                }
            }
            return Behaviors.same();
        }
    }

    // skynet

    private static double skynet(int... n) throws Exception {
        return timed(n[0] * (n[0] - 1L) / 2, answer -> Behaviors.<Long>setup(context -> {
            context.spawnAnonymous(skynetNode(context.getSelf(), 0, n[0]));
            return Behaviors.receiveMessage(sum -> {
                answer.complete(sum);
                return Behaviors.stopped();
            });
        }));
    }

    private static Behavior<Long> skynetNode(ActorRef<Long> parent, long number, int size) {
        return Behaviors.setup(context -> {
            if (size == 1) {
                parent.tell(number);
                return Behaviors.stopped();
            }
            int part = size / 10;
            for (int i = 0; i < 10; i++) {
                context.spawnAnonymous(skynetNode(context.getSelf(), number + (long) i * part, part));
            }
            return new SkynetSum(context, parent);
        });
    }

    private static final class SkynetSum extends AbstractBehavior<Long> {
        private final ActorRef<Long> parent;
        private int left = 10;
        private long sum;

        SkynetSum(ActorContext<Long> context, ActorRef<Long> parent) {
            super(context);
            this.parent = parent;
        }

        @Override
        public org.apache.pekko.actor.typed.javadsl.Receive<Long> createReceive() {
            return newReceiveBuilder().onAnyMessage(this::add).build();
        }

        private Behavior<Long> add(long number) {
            sum += number;
            if (--left > 0) {
                return this;
            }
            parent.tell(sum);
            return Behaviors.stopped();
        }
    }

    // uct

    private sealed interface UctMessage {}

    private record MayI(ActorRef<UctMessage> node) implements UctMessage {}

    private record Yes(int work) implements UctMessage {}

    private record Computed(int value) implements UctMessage {}

    private record Size(int nodes) implements UctMessage {}

    private enum UctSignal implements UctMessage {
        NO,
        TRAVERSE,
        END
    }

    private static double uct(int... n) throws Exception {
        return timed(n[0], answer -> Behaviors.<UctMessage>setup(context -> {
            UctRoot root = new UctRoot(context, n[0], answer);
            return Behaviors.receiveMessage(root::on);
        }));
    }

    private static int nextRandom(int x) {
        return (x * 1103515245 + 12345) & 0x7fffffff;
    }

    private static int compute(int work) {
        int x = work;
        for (int i = 0; i < work; i++) {
            x = nextRandom(x);
        }
        return x;
    }

    private static final class UctRoot {
        private final int most;
        private final CompletableFuture<Long> answer;
        private final List<ActorRef<UctMessage>> children;
        private int nodes = 10;
        private int asked;
        private int random = 1;
        private int computed;
        private int reports;
        private long size;

        UctRoot(ActorContext<UctMessage> context, int most, CompletableFuture<Long> answer) {
            this.most = most;
            this.answer = answer;
            this.children = spawnAll(context, 10, i -> UctNode.behavior(context.getSelf(), context.getSelf(), 1));
        }

        private UctMessage answerToNext() {
            random = nextRandom(random);
            if ((random & 0x10000) != 0 && nodes + 10 <= most) {
                nodes += 10;
                return new Yes((random >> 8) % 100);
            }
            return UctSignal.NO;
        }

        private void tellChildren(UctMessage message) {
            children.forEach(child -> child.tell(message));
        }

        Behavior<UctMessage> on(UctMessage message) {
            switch (message) {
                case MayI(var node) -> {
                    node.tell(answerToNext());
                    if (++asked == nodes) {
                        tellChildren(UctSignal.TRAVERSE);
                    }
                }
                case Computed computation -> {
                    if (++computed == nodes) {
                        tellChildren(UctSignal.END);
                    }
                }
                case Size(int below) -> {
                    size += below;
                    if (++reports == 10) {
                        answer.complete(size);
                        return Behaviors.stopped();
                    }
                }
                default -> throw new IllegalStateException("not for the root: " + message);
            }
            return Behaviors.same();
        }
    }

    private static final class UctNode {
        private final ActorContext<UctMessage> context;
        private final ActorRef<UctMessage> root;
        private final ActorRef<UctMessage> parent;
        private final int work;
        private List<ActorRef<UctMessage>> children = List.of();
        private int reports;
        private int size = 1;

        private UctNode(ActorContext<UctMessage> context, ActorRef<UctMessage> root, ActorRef<UctMessage> parent, int work) {
            this.context = context;
            this.root = root;
            this.parent = parent;
            this.work = work;
        }

        static Behavior<UctMessage> behavior(ActorRef<UctMessage> root, ActorRef<UctMessage> parent, int work) {
            return Behaviors.setup(context -> {
                UctNode node = new UctNode(context, root, parent, work);
                root.tell(new MayI(context.getSelf()));
                return Behaviors.receiveMessage(node::on);
            });
        }

        private Behavior<UctMessage> endedWhenAllBelowHave() {
            if (reports < children.size()) {
                return Behaviors.same();
            }
            parent.tell(new Size(size));
            return Behaviors.stopped();
        }

        private Behavior<UctMessage> on(UctMessage message) {
            switch (message) {
                case Yes(int ofChildren) ->
                    children = spawnAll(context, 10, i -> behavior(root, context.getSelf(), ofChildren));
                case UctSignal.NO -> {}
                case UctSignal.TRAVERSE -> {
                    root.tell(new Computed(compute(work)));
                    children.forEach(child -> child.tell(message));
                }
                case UctSignal.END -> {
                    children.forEach(child -> child.tell(message));
                    return endedWhenAllBelowHave();
                }
                case Size(int below) -> {
                    size += below;
                    reports++;
                    return endedWhenAllBelowHave();
                }
                default -> throw new IllegalStateException("not for a node: " + message);
            }
            return Behaviors.same();
        }
    }
}
