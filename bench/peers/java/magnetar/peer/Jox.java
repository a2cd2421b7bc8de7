package magnetar.peer;

import com.softwaremill.jox.Channel;
import com.softwaremill.jox.Select;
import com.softwaremill.jox.SelectClause;
import java.net.http.HttpClient;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/** Virtual threads with the channels of jox. */
final class Jox {
    private Jox() {}

    private static Channel<Integer> channel(int size) {
        return size == 0 ? Channel.newRendezvousChannel() : size < 0 ? Channel.newUnlimitedChannel() : Channel.newBufferedChannel(size);
    }

    private static Thread start(Peer.Work work) {
        return Thread.startVirtualThread(() -> {
            try {
                work.run();
            } catch (Exception e) {
                Peer.check(false, e.toString());
            }
        });
    }

    /** Runs the body on a virtual thread, as the other threads are. */
    private static double measured(Peer.Work work) throws Exception {
        double[] took = new double[1];
        start(() -> took[0] = Peer.timed(work)).join();
        return took[0];
    }

    private static double ring(int... n) throws Exception {
        int threads = n[0];
        int rounds = n[1];
        @SuppressWarnings({"unchecked", "rawtypes"})
        Channel<Integer>[] channels = new Channel[threads];
        for (int i = 0; i < threads; i++) {
            channels[i] = channel(0);
        }
        CountDownLatch done = new CountDownLatch(1);
        for (int i = 0; i < threads; i++) {
            Channel<Integer> in = channels[i];
            Channel<Integer> out = channels[(i + 1) % threads];
            boolean last = i == threads - 1;
            start(() -> {
                for (int r = 0; r < rounds; r++) {
                    int token = in.receive();
                    if (last && r == rounds - 1) {
                        done.countDown();
                    } else {
                        out.send(token + 1);
                    }
                }
            });
        }
        Peer.settle(n[0]);
        return measured(() -> {
            channels[0].send(0);
            done.await();
        });
    }

    private static double pingPong(int... n) throws Exception {
        Channel<Integer> to = channel(0);
        Channel<Integer> fro = channel(0);
        start(() -> {
            for (int i = 0; i < n[0]; i++) {
                fro.send(to.receive());
            }
        });
        return measured(() -> {
            for (int i = 0; i < n[0]; i++) {
                to.send(i);
                fro.receive();
            }
        });
    }

    private static double fanIn(int producers, int buffer, int values) throws Exception {
        Channel<Integer> channel = channel(buffer);
        int share = values / producers;
        return measured(() -> {
            for (int p = 0; p < producers; p++) {
                start(() -> {
                    for (int i = 0; i < share; i++) {
                        channel.send(i);
                    }
                });
            }
            for (int i = 0; i < share * producers; i++) {
                channel.receive();
            }
        });
    }

    private record Request(int number, Channel<Integer> reply) {}

    private static double call(int... n) throws Exception {
        int share = n[1] / n[0];
        Channel<Request> requests = Channel.newBufferedChannel(128);
        start(() -> {
            int sum = 0;
            for (int i = 0; i < share * n[0]; i++) {
                Request request = requests.receive();
                sum += request.number;
                request.reply.send(sum);
            }
        });
        CountDownLatch done = new CountDownLatch(n[0]);
        return measured(() -> {
            for (int c = 0; c < n[0]; c++) {
                start(() -> {
                    Channel<Integer> reply = channel(1);
                    for (int i = 0; i < share; i++) {
                        requests.send(new Request(1, reply));
                        reply.receive();
                    }
                    done.countDown();
                });
            }
            done.await();
        });
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static double select(int width, int buffer, int values) throws Exception {
        Channel<Integer>[] channels = new Channel[width];
        int share = values / width;
        for (int c = 0; c < width; c++) {
            Channel<Integer> channel = channel(buffer);
            channels[c] = channel;
            start(() -> {
                for (int i = 0; i < share; i++) {
                    channel.send(i);
                }
            });
        }
        return measured(() -> {
            for (int i = 0; i < share * width; i++) {
                SelectClause[] clauses = new SelectClause[width];
                for (int c = 0; c < width; c++) {
                    clauses[c] = channels[c].receiveClause();
                }
                Select.select(clauses);
            }
        });
    }

    private static Object parked(int i) {
        Channel<Integer> channel = channel(0);
        start(channel::receive);
        return channel;
    }

    private static double mixed(int... n) throws Exception {
        Channel<Integer> results = channel(0);
        return measured(() -> {
            for (int i = 0; i < n[0]; i++) {
                start(() -> {
                    Thread.sleep(250);
                    results.send(1);
                });
            }
            for (int i = 0; i < n[1]; i++) {
                start(() -> results.send(Peer.factors(1548587L * 982451653L)));
            }
            for (int i = 0; i < n[0] + n[1]; i++) {
                results.receive();
            }
        });
    }

    private static double crawl(int port, int pages) throws Exception {
        try (HttpClient client = HttpClient.newHttpClient()) {
            Channel<Integer> lengths = channel(0);
            return measured(() -> {
                for (int i = 0; i < pages; i++) {
                    int page = i;
                    start(() -> lengths.send(Peer.fetch(client, port, page)));
                }
                for (int i = 0; i < pages; i++) {
                    lengths.receive();
                }
            });
        }
    }

    public static void main(String[] args) throws Exception {
        Peer.serve(Map.of(
                "ring", Jox::ring,
                "ping-pong", Jox::pingPong,
                "fan-in", n -> fanIn(n[0], n[1], n[2]),
                "mailbox", n -> fanIn(n[0], -1, n[1]),
                "call", Jox::call,
                "select", n -> select(n[0], n[1], n[2]),
                "mixed", Jox::mixed,
                "crawl", n -> crawl(n[0], n[1]),
                "memory", n -> Peer.memory(n[0], Jox::parked)));
    }
}
