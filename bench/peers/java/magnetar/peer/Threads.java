package magnetar.peer;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.http.HttpClient;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;

/** Plain virtual threads, with the queues of the JDK. */
final class Threads {
    private Threads() {}

    private static void start(Peer.Work work) {
        Thread.startVirtualThread(() -> {
            try {
                work.run();
            } catch (Exception e) {
                Peer.check(false, e.toString());
            }
        });
    }

    private static BlockingQueue<Integer> queue(int size) {
        return size == 0 ? new SynchronousQueue<>() : size < 0 ? new LinkedBlockingQueue<>() : new ArrayBlockingQueue<>(size);
    }

    /** Runs the body on a virtual thread, as the other threads are. */
    private static double measured(Peer.Work work) throws Exception {
        double[] took = new double[1];
        Thread.startVirtualThread(() -> {
            try {
                took[0] = Peer.timed(work);
            } catch (Exception e) {
                Peer.check(false, e.toString());
            }
        }).join();
        return took[0];
    }

    private static double ring(int... n) throws Exception {
        int threads = n[0];
        int rounds = n[1];
        @SuppressWarnings({"unchecked", "rawtypes"})
        BlockingQueue<Integer>[] queues = new BlockingQueue[threads];
        for (int i = 0; i < threads; i++) {
            queues[i] = queue(0);
        }
        CountDownLatch done = new CountDownLatch(1);
        for (int i = 0; i < threads; i++) {
            BlockingQueue<Integer> in = queues[i];
            BlockingQueue<Integer> out = queues[(i + 1) % threads];
            boolean last = i == threads - 1;
            start(() -> {
                for (int r = 0; r < rounds; r++) {
                    int token = in.take();
                    if (last && r == rounds - 1) {
                        done.countDown();
                    } else {
                        out.put(token + 1);
                    }
                }
            });
        }
        Peer.settle(n[0]);
        return measured(() -> {
            queues[0].put(0);
            done.await();
        });
    }

    private static double pingPong(int... n) throws Exception {
        BlockingQueue<Integer> to = queue(0);
        BlockingQueue<Integer> fro = queue(0);
        start(() -> {
            for (int i = 0; i < n[0]; i++) {
                fro.put(to.take());
            }
        });
        return measured(() -> {
            for (int i = 0; i < n[0]; i++) {
                to.put(i);
                fro.take();
            }
        });
    }

    private static double fanIn(int producers, int buffer, int values) throws Exception {
        BlockingQueue<Integer> queue = queue(buffer);
        int share = values / producers;
        return measured(() -> {
            for (int p = 0; p < producers; p++) {
                start(() -> {
                    for (int i = 0; i < share; i++) {
                        queue.put(i);
                    }
                });
            }
            for (int i = 0; i < share * producers; i++) {
                queue.take();
            }
        });
    }

    private record Request(int number, BlockingQueue<Integer> reply) {}

    private static double call(int... n) throws Exception {
        int share = n[1] / n[0];
        BlockingQueue<Request> requests = new ArrayBlockingQueue<>(128);
        start(() -> {
            int sum = 0;
            for (int i = 0; i < share * n[0]; i++) {
                Request request = requests.take();
                sum += request.number;
                request.reply.put(sum);
            }
        });
        CountDownLatch done = new CountDownLatch(n[0]);
        return measured(() -> {
            for (int c = 0; c < n[0]; c++) {
                start(() -> {
                    BlockingQueue<Integer> reply = queue(1);
                    for (int i = 0; i < share; i++) {
                        requests.put(new Request(1, reply));
                        reply.take();
                    }
                    done.countDown();
                });
            }
            done.await();
        });
    }

    private static double spawn(int... n) throws Exception {
        CountDownLatch done = new CountDownLatch(n[0]);
        return measured(() -> {
            for (int i = 0; i < n[0]; i++) {
                Thread.startVirtualThread(done::countDown);
            }
            done.await();
        });
    }

    private static Object parked(int i) {
        BlockingQueue<Integer> queue = queue(1);
        start(queue::take);
        return queue;
    }

    private static double mixed(int... n) throws Exception {
        CountDownLatch done = new CountDownLatch(n[0] + n[1]);
        return measured(() -> {
            for (int i = 0; i < n[0]; i++) {
                start(() -> {
                    Thread.sleep(250);
                    done.countDown();
                });
            }
            for (int i = 0; i < n[1]; i++) {
                start(() -> {
                    Peer.factors(1548587L * 982451653L);
                    done.countDown();
                });
            }
            done.await();
        });
    }

    private static double spawnJoin(int n) throws Exception {
        return measured(() -> {
            for (int i = 0; i < n; i++) {
                Thread.startVirtualThread(() -> {}).join();
            }
        });
    }

    private static double pmap(int n) throws Exception {
        List<Integer> in = java.util.Collections.nCopies(n, 1);
        List<Integer> out = new ArrayList<>(n);
        double took = measured(() -> {
            try (ExecutorService executor = Executors.newVirtualThreadPerTaskExecutor()) {
                List<Future<Integer>> futures = new ArrayList<>(n);
                for (Integer x : in) {
                    futures.add(executor.submit(() -> x + 1));
                }
                for (Future<Integer> future : futures) {
                    out.add(future.get());
                }
            }
        });
        Peer.check(out.stream().mapToInt(Integer::intValue).sum() == 2 * n, "pmap lost a value");
        return took;
    }

    private static double timers(int n) throws Exception {
        try (ScheduledThreadPoolExecutor pool = new ScheduledThreadPoolExecutor(1)) {
            pool.setRemoveOnCancelPolicy(true);
            Future<?>[] all = new Future<?>[n];
            return measured(() -> {
                for (int i = 0; i < n; i++) {
                    all[i] = pool.schedule(() -> {}, 10000 + i % 1000, TimeUnit.MILLISECONDS);
                }
                for (Future<?> timer : all) {
                    timer.cancel(false);
                }
            });
        }
    }

    private static double crawl(int port, int pages) throws Exception {
        try (HttpClient client = HttpClient.newHttpClient()) {
            CountDownLatch done = new CountDownLatch(pages);
            return measured(() -> {
                for (int i = 0; i < pages; i++) {
                    int page = i;
                    start(() -> {
                        Peer.fetch(client, port, page);
                        done.countDown();
                    });
                }
                done.await();
            });
        }
    }

    private static void echo(Socket socket) {
        try (socket) {
            InputStream in = socket.getInputStream();
            OutputStream out = socket.getOutputStream();
            byte[] buffer = new byte[1024];
            for (int n = in.read(buffer); n > 0; n = in.read(buffer)) {
                out.write(buffer, 0, n);
            }
        } catch (IOException e) {
            // the client went away
        }
    }

    private static double echoServer() throws Exception {
        ServerSocket server = new ServerSocket(0, 1024, InetAddress.getLoopbackAddress());
        start(() -> {
            while (true) {
                Socket socket = server.accept();
                socket.setTcpNoDelay(true);
                start(() -> echo(socket));
            }
        });
        return server.getLocalPort();
    }

    public static void main(String[] args) throws Exception {
        Peer.serve(Map.ofEntries(
                Map.entry("ring", Threads::ring),
                Map.entry("ping-pong", Threads::pingPong),
                Map.entry("fan-in", n -> fanIn(n[0], n[1], n[2])),
                Map.entry("mailbox", n -> fanIn(n[0], -1, n[1])),
                Map.entry("call", Threads::call),
                Map.entry("spawn", Threads::spawn),
                Map.entry("spawn-join", n -> spawnJoin(n[0])),
                Map.entry("pmap", n -> pmap(n[0])),
                Map.entry("timers", n -> timers(n[0])),
                Map.entry("crawl", n -> crawl(n[0], n[1])),
                Map.entry("echo", n -> echoServer()),
                Map.entry("memory", n -> Peer.memory(n[0], Threads::parked)),
                Map.entry("mixed", Threads::mixed)));
    }
}
