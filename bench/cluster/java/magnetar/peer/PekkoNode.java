package magnetar.peer;

import com.typesafe.config.Config;
import com.typesafe.config.ConfigFactory;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.apache.pekko.actor.AbstractActor;
import org.apache.pekko.actor.ActorRef;
import org.apache.pekko.actor.ActorSystem;
import org.apache.pekko.actor.Props;
import org.apache.pekko.actor.Terminated;
import org.apache.pekko.pattern.Patterns;

/**
 * A node of the suite {@code cluster}, see bench/README.md, over Pekko's artery by TCP: one that serves, or one that reads
 * lines {@code workload number ..} and answers each with numbers. All messages are of types that Pekko writes itself.
 *
 * <p>Arguments: the port to listen on, the port of the other node or {@code -}, the folder of the certificates or {@code -}, the cipher.
 */
public final class PekkoNode {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final byte[] PAYLOAD = new byte[100];

    private PekkoNode() {}

    public static void main(String[] args) throws Exception {
        try {
            ActorSystem system = ActorSystem.create("bench", config(args));
            if (args[1].equals("-")) {
                serve(system);
            } else {
                measure(system, args[1]);
            }
            System.exit(0);
        } catch (Throwable e) { // other threads would keep a JVM alive that answers no more
            e.printStackTrace();
            System.exit(1);
        }
    }

    private static Config config(String[] args) {
        String usual = "pekko.loglevel=OFF\npekko.stdout-loglevel=OFF\npekko.actor.provider=remote\n"
                + "pekko.remote.use-unsafe-remote-features-outside-cluster=on\n" // to watch
                + "pekko.remote.artery.canonical.hostname=127.0.0.1\npekko.remote.artery.canonical.port=" + args[0] + "\n";
        return ConfigFactory.parseString(usual + (args[2].equals("-") ? "pekko.remote.artery.transport=tcp" : tls(args[2], args[3])))
                .withFallback(ConfigFactory.load());
    }

    private static String tls(String folder, String cipher) {
        return "pekko.remote.artery.transport=tls-tcp\npekko.remote.artery.ssl {\n"
                + "ssl-engine-provider=org.apache.pekko.remote.artery.tcp.ssl.RotatingKeysSSLEngineProvider\n"
                + "rotating-keys-engine {\nkey-file=\"" + folder + "/node.key\"\ncert-file=\"" + folder + "/node.pem\"\nca-cert-file=\""
                + folder + "/ca.pem\"\nprotocol=\"TLSv1.3\"\nenabled-algorithms=[" + cipher + "]\n}\n}\n";
    }

    // ---- what serves

    private static void serve(ActorSystem system) throws Exception {
        system.actorOf(Props.create(Sink.class), "sink");
        system.actorOf(Props.create(Server.class), "server");
        system.actorOf(Props.create(Starter.class), "starter");
        System.out.println("ready");
        while (System.in.read() >= 0) {}
    }

    /** Answers each time it has as many as the number says that it was sent first. */
    private static final class Sink extends AbstractActor {
        private ActorRef from;
        private long batch;
        private long left;

        @Override
        public Receive createReceive() {
            return receiveBuilder()
                    .match(byte[].class, _ -> {
                        if (--left == 0) {
                            from.tell("batch", getSelf());
                            left = batch;
                        }
                    })
                    .match(Long.class, each -> {
                        from = getSender();
                        batch = each;
                        left = each;
                    })
                    .build();
        }
    }

    private static final class Server extends AbstractActor {
        @Override
        public Receive createReceive() {
            return receiveBuilder().matchAny(what -> getSender().tell(what, getSelf())).build();
        }
    }

    private static final class Starter extends AbstractActor {
        @Override
        public Receive createReceive() {
            return receiveBuilder()
                    .matchEquals("start", _ -> getSender().tell("started", getContext().actorOf(Props.create(Target.class))))
                    .build();
        }
    }

    private static final class Target extends AbstractActor {
        @Override
        public Receive createReceive() {
            return receiveBuilder()
                    .matchEquals("ping", _ -> getSender().tell("pong", getSelf()))
                    .matchEquals("die", _ -> getContext().stop(getSelf()))
                    .build();
        }
    }

    // ---- what measures

    private interface Workload {
        long[] run(int... n) throws Exception;
    }

    private static void measure(ActorSystem system, String port) throws Exception {
        ActorRef sink = find(system, port, "sink");
        ActorRef server = find(system, port, "server");
        ActorRef starter = find(system, port, "starter");
        CompletableFuture<long[]> watched = new CompletableFuture<>();
        Map<String, Workload> workloads = Map.of(
                "collect", _ -> collected(),
                "tell", n -> tell(system, sink, n[0], n[1], n[2]),
                "ask", n -> ask(server, n[0], n[1]),
                "downs", n -> answerOf(system, answer -> Props.create(Watcher.class, () -> new Watcher(starter, n[0], answer))),
                "watch", _ -> answerOf(system, answer -> Props.create(Keeper.class, () -> new Keeper(starter, answer, watched))),
                "await-down", _ -> watched.join());
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            long[] numbers = workloads.get(words[0]).run(Arrays.stream(words).skip(1).mapToInt(Integer::parseInt).toArray());
            System.out.println(LongStream.of(numbers).mapToObj(Long::toString).collect(Collectors.joining(" ")));
        }
    }

    private static ActorRef find(ActorSystem system, String port, String name) {
        return system.actorSelection("pekko://bench@127.0.0.1:" + port + "/user/" + name)
                .resolveOne(PATIENCE)
                .toCompletableFuture()
                .join();
    }

    private static long[] answerOf(ActorSystem system, java.util.function.Function<CompletableFuture<long[]>, Props> actor) {
        CompletableFuture<long[]> answer = new CompletableFuture<>();
        system.actorOf(actor.apply(answer));
        return answer.join();
    }

    private static long[] collected() {
        System.gc();
        return new long[] {0};
    }

    private static long[] tell(ActorSystem system, ActorRef sink, int batches, int batch, int ahead) {
        long start = System.nanoTime();
        answerOf(system, done -> Props.create(Sender.class, () -> new Sender(sink, batches, batch, ahead, done)));
        return new long[] {System.nanoTime() - start};
    }

    /** Sends batches, so many ahead of what the sink has counted. */
    private static final class Sender extends AbstractActor {
        private final ActorRef sink;
        private final int batch;
        private final int ahead;
        private final CompletableFuture<long[]> done;
        private int unsent;
        private int unanswered;

        Sender(ActorRef sink, int batches, int batch, int ahead, CompletableFuture<long[]> done) {
            this.sink = sink;
            this.batch = batch;
            this.ahead = ahead;
            this.done = done;
            this.unsent = batches;
            this.unanswered = batches;
        }

        @Override
        public void preStart() {
            sink.tell((long) batch, getSelf());
            for (int i = 0; i < ahead; i++) {
                send();
            }
        }

        private void send() {
            if (unsent > 0) {
                unsent--;
                for (int i = 0; i < batch; i++) {
                    sink.tell(PAYLOAD, ActorRef.noSender());
                }
            }
        }

        @Override
        public Receive createReceive() {
            return receiveBuilder()
                    .matchEquals("batch", _ -> {
                        send();
                        if (--unanswered == 0) {
                            done.complete(new long[0]);
                            getContext().stop(getSelf());
                        }
                    })
                    .build();
        }
    }

    private static long[] ask(ActorRef server, int callers, int n) throws Exception {
        int share = n / callers;
        CountDownLatch done = new CountDownLatch(callers);
        long start = System.nanoTime();
        for (int c = 0; c < callers; c++) {
            Thread.startVirtualThread(() -> {
                for (int i = 0; i < share; i++) {
                    Patterns.ask(server, PAYLOAD, PATIENCE).toCompletableFuture().join();
                }
                done.countDown();
            });
        }
        done.await();
        return new long[] {System.nanoTime() - start};
    }

    /** Watches actors of the other node that answer and end: the time of an answer, and the time from the message that ends it. */
    private static final class Watcher extends AbstractActor {
        private final ActorRef starter;
        private final CompletableFuture<long[]> answer;
        private final long[] times;
        private int next;
        private boolean settled;
        private long since;

        Watcher(ActorRef starter, int n, CompletableFuture<long[]> answer) {
            this.starter = starter;
            this.answer = answer;
            this.times = new long[2 * n];
        }

        @Override
        public void preStart() {
            starter.tell("start", getSelf());
        }

        private void note() {
            times[next++] = System.nanoTime() - since;
        }

        private void send(String what) {
            since = System.nanoTime();
            getSender().tell(what, getSelf());
        }

        @Override
        public Receive createReceive() {
            return receiveBuilder()
                    .matchEquals("started", _ -> {
                        getContext().watch(getSender());
                        settled = false;
                        send("ping");
                    })
                    .matchEquals("pong", _ -> {
                        if (settled) {
                            note();
                            send("die");
                        } else {
                            settled = true;
                            send("ping");
                        }
                    })
                    .match(Terminated.class, _ -> {
                        note();
                        if (next == times.length) {
                            answer.complete(times);
                            getContext().stop(getSelf());
                        } else {
                            starter.tell("start", getSelf());
                        }
                    })
                    .build();
        }
    }

    /** Watches one actor of the other node: tells when it does, and when that has ended. */
    private static final class Keeper extends AbstractActor {
        private final ActorRef starter;
        private final CompletableFuture<long[]> watching;
        private final CompletableFuture<long[]> ended;

        Keeper(ActorRef starter, CompletableFuture<long[]> watching, CompletableFuture<long[]> ended) {
            this.starter = starter;
            this.watching = watching;
            this.ended = ended;
        }

        @Override
        public void preStart() {
            starter.tell("start", getSelf());
        }

        @Override
        public Receive createReceive() {
            return receiveBuilder()
                    .matchEquals("started", _ -> {
                        getContext().watch(getSender());
                        getSender().tell("ping", getSelf());
                    })
                    .matchEquals("pong", _ -> watching.complete(new long[] {0}))
                    .match(Terminated.class, _ -> ended.complete(new long[] {0}))
                    .build();
        }
    }
}
