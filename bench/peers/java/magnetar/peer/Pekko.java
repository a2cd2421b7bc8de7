package magnetar.peer;

import com.typesafe.config.ConfigFactory;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;
import org.apache.pekko.actor.Cancellable;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.ActorSystem;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.ActorContext;
import org.apache.pekko.actor.typed.javadsl.Adapter;
import org.apache.pekko.actor.typed.javadsl.AskPattern;
import org.apache.pekko.actor.typed.javadsl.Behaviors;

/** The typed actors of Pekko, on its default dispatcher with a thread for each core. */
final class Pekko {
    private Pekko() {}

    private static final ActorSystem<Consumer<ActorContext<?>>> SYSTEM = ActorSystem.create(
            Behaviors.setup(context -> Behaviors.receiveMessage(work -> {
                work.accept(context);
                return Behaviors.same();
            })),
            "peer",
            ConfigFactory.parseString("pekko.loglevel=OFF\npekko.stdout-loglevel=OFF\n"
                            + "pekko.actor.default-dispatcher.fork-join-executor.parallelism-min=1\n"
                            + "pekko.actor.default-dispatcher.fork-join-executor.parallelism-factor=1.0\n")
                    .withFallback(ConfigFactory.load()));

    /** Runs it in the actor that is the parent of all others. */
    private static <T> T inSystem(java.util.function.Function<ActorContext<?>, T> work) {
        CompletableFuture<T> answer = new CompletableFuture<>();
        SYSTEM.tell(context -> answer.complete(work.apply(context)));
        return answer.join();
    }

    static <T> ActorRef<T> spawn(Behavior<T> behavior) {
        return inSystem(context -> context.spawnAnonymous(behavior));
    }

    private static double ring(int... n) throws Exception {
        int rounds = n[1];
        @SuppressWarnings({"unchecked", "rawtypes"})
        ActorRef<Integer>[] actors = new ActorRef[n[0]];
        CountDownLatch done = new CountDownLatch(1);
        for (int i = 0; i < n[0]; i++) {
            int next = (i + 1) % n[0];
            boolean last = next == 0;
            int[] seen = new int[1];
            actors[i] = spawn(Behaviors.receiveMessage(token -> {
                if (last && ++seen[0] == rounds) {
                    done.countDown();
                } else {
                    actors[next].tell(token);
                }
                return Behaviors.same();
            }));
        }
        Peer.settle(n[0]);
        return Peer.timed(() -> {
            actors[0].tell(1);
            done.await();
        });
    }

    private static double pingPong(int... n) throws Exception {
        return ring(2, n[0]);
    }

    private static double mailbox(int... n) throws Exception {
        int share = n[1] / n[0];
        CountDownLatch done = new CountDownLatch(1);
        int[] left = {share * n[0]};
        ActorRef<Integer> receiver = spawn(Behaviors.receiveMessage(m -> {
            if (--left[0] == 0) {
                done.countDown();
            }
            return Behaviors.same();
        }));
        return Peer.timed(() -> {
            for (int s = 0; s < n[0]; s++) {
                ActorRef<Integer> sender = spawn(Behaviors.receiveMessage(m -> {
                    for (int i = 0; i < share; i++) {
                        receiver.tell(i);
                    }
                    return Behaviors.stopped();
                }));
                sender.tell(0);
            }
            done.await();
        });
    }

    private record Request(int number, ActorRef<Integer> reply) {}

    private static double ask(int... n) throws Exception {
        int share = n[1] / n[0];
        int[] sum = new int[1];
        ActorRef<Request> server = spawn(Behaviors.receiveMessage(request -> {
            sum[0] += request.number;
            request.reply.tell(sum[0]);
            return Behaviors.same();
        }));
        CountDownLatch done = new CountDownLatch(n[0]);
        return Peer.timed(() -> {
            for (int c = 0; c < n[0]; c++) {
                Thread.startVirtualThread(() -> {
                    for (int i = 0; i < share; i++) {
                        AskPattern.<Request, Integer>ask(server, to -> new Request(1, to), Duration.ofSeconds(5), SYSTEM.scheduler())
                                .toCompletableFuture()
                                .join();
                    }
                    done.countDown();
                });
            }
            done.await();
        });
    }

    private static final Behavior<CountDownLatch> ONCE = Behaviors.receiveMessage(latch -> {
        latch.countDown();
        return Behaviors.stopped();
    });

    private static double spawnAll(int... n) throws Exception {
        CountDownLatch done = new CountDownLatch(n[0]);
        return Peer.timed(() -> {
            inSystem(context -> {
                for (int i = 0; i < n[0]; i++) {
                    context.spawnAnonymous(ONCE).tell(done);
                }
                return null;
            });
            done.await();
        });
    }

    private static double timers(int... n) throws Exception {
        Cancellable[] all = new Cancellable[n[0]];
        return Peer.timed(() -> {
            for (int i = 0; i < n[0]; i++) {
                all[i] = SYSTEM.scheduler().scheduleOnce(Duration.ofMillis(10000 + i % 1000), () -> {}, SYSTEM.executionContext());
            }
            for (Cancellable timer : all) {
                timer.cancel();
            }
        });
    }

    private static double memory(int... n) throws Exception {
        ActorRef<?>[] all = new ActorRef<?>[n[0]];
        double bytes = Peer.memory(1, i -> inSystem(context -> {
            for (int a = 0; a < n[0]; a++) {
                all[a] = context.spawnAnonymous(Behaviors.receiveMessage(m -> Behaviors.same()));
            }
            return all;
        }));
        return bytes / n[0];
    }

    public static void main(String[] args) throws Exception {
        Map<String, Peer.Workload> workloads = new HashMap<>(PekkoSavina.WORKLOADS);
        workloads.putAll(Map.of(
                "ring-actors", Pekko::ring,
                "ping-pong-actors", Pekko::pingPong,
                "mailbox", Pekko::mailbox,
                "server-call", Pekko::ask,
                "spawn-actors", Pekko::spawnAll,
                "timers", Pekko::timers,
                "echo", n -> PekkoEcho.start(props -> inSystem(context -> Adapter.actorOf(context, props))),
                "memory-actors", Pekko::memory));
        Peer.serve(workloads);
    }
}
