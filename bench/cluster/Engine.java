import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.LongAdder;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import magnetar.cluster.impl.Cookie;
import magnetar.cluster.impl.JGroupsNetwork;
import magnetar.cluster.impl.Settings;
import magnetar.kernel.network.Member;
import magnetar.kernel.network.Network;
import magnetar.kernel.network.View;

/**
 * What the engine of a cluster does between two JVMs on the loopback address: frames one way, round trips, the time from a
 * kill to the view at the survivor, each with and without TLS.
 *
 * <p>`bin/magnetar test cluster` compiles what it needs. The jar is JGroups, as Maven has fetched it:
 * {@code java -cp kernel/target/classes:cluster/target/classes:jgroups.jar bench/cluster/Engine.java}
 */
public class Engine {
    static final int ROUNDS = 5;
    static final long ROUND_NANOS = 2_000_000_000L;

    /** The other JVM answers each frame that ends a round, and counts the rest. */
    static class Other implements Network.Events {
        final LongAdder frames = new LongAdder();
        final Semaphore ends = new Semaphore(0);

        @Override
        public void view(View next) {}

        @Override
        public void frame(Member from, byte[] frame) {
            frames.increment();
            if (frame[0] == 1) {
                ends.release();
            }
        }
    }

    static class Here implements Network.Events {
        final Semaphore answers = new Semaphore(0);
        volatile View view;
        volatile long changed;

        @Override
        public void view(View next) {
            changed = System.nanoTime();
            view = next;
        }

        @Override
        public void frame(Member from, byte[] frame) {
            answers.release();
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length > 0) {
            other(args[0], args[1].isEmpty() ? null : Path.of(args[1]));
        } else {
            Path store = certificate();
            for (Path tls : Arrays.asList(null, store)) {
                measure(tls);
            }
            Files.delete(store);
        }
        System.exit(0);
    }

    static JGroupsNetwork network(String name, List<InetSocketAddress> peers, Path store) throws Exception {
        Settings settings = new Settings(name, Cookie.of("the cookie of a measurement")).peers(peers);
        return new JGroupsNetwork(store == null ? settings : settings.tls(context(store)));
    }

    static void other(String address, Path store) throws Exception {
        Other events = new Other();
        int colon = address.lastIndexOf(':');
        InetSocketAddress peer = new InetSocketAddress(InetAddress.getByName(address.substring(0, colon)),
                Integer.parseInt(address.substring(colon + 1)));
        JGroupsNetwork network = network("other", List.of(peer), store);
        network.join(events);
        System.out.println("ready");
        while (true) {
            events.ends.acquire();
            network.send(network.view().members().getFirst(), new byte[] {1});
        }
    }

    static void measure(Path tls) throws Exception {
        String how = tls == null ? "plain" : "TLS";
        Here events = new Here();
        JGroupsNetwork network = network("here", List.of(), tls);
        network.join(events);
        Process process = start(network, tls);
        Member other = await(events, 2);
        for (int length : new int[] {100, 1_024, 8_192}) {
            double[] rates = new double[ROUNDS];
            for (int round = -2; round < ROUNDS; round++) {
                double rate = rate(network, events, other, length);
                if (round >= 0) {
                    rates[round] = rate;
                }
            }
            Arrays.sort(rates);
            System.out.printf("%s: %,d frames of %d bytes in a second (median of %d; %,d to %,d)%n", how, (long) rates[ROUNDS / 2], length,
                    ROUNDS, (long) rates[0], (long) rates[ROUNDS - 1]);
        }
        roundTrips(how, network, events, other);
        kills(how, network, events, process, tls);
        network.leave();
    }

    static double rate(JGroupsNetwork network, Here events, Member other, int length) throws Exception {
        long began = System.nanoTime();
        long count = 0;
        while (System.nanoTime() - began < ROUND_NANOS) {
            for (int i = 0; i < 100; i++) {
                network.send(other, new byte[length]);
            }
            count += 100;
        }
        network.send(other, new byte[] {1});
        events.answers.acquire();
        return count * 1e9 / (System.nanoTime() - began);
    }

    static void roundTrips(String how, JGroupsNetwork network, Here events, Member other) throws Exception {
        long[] times = new long[20_000];
        for (int i = 0; i < times.length; i++) {
            long began = System.nanoTime();
            network.send(other, new byte[] {1});
            events.answers.acquire();
            times[i] = System.nanoTime() - began;
        }
        long[] later = Arrays.copyOfRange(times, times.length / 2, times.length);
        Arrays.sort(later);
        System.out.printf("%s: round trip %d us (median), %d us (99 of 100)%n", how, later[later.length / 2] / 1000,
                later[later.length * 99 / 100] / 1000);
    }

    static void kills(String how, JGroupsNetwork network, Here events, Process first, Path tls) throws Exception {
        long[] times = new long[ROUNDS];
        Process process = first;
        for (int round = 0; round < ROUNDS; round++) {
            if (round > 0) {
                process = start(network, tls);
                await(events, 2);
            }
            long began = System.nanoTime();
            process.destroyForcibly();
            await(events, 1);
            times[round] = events.changed - began;
            process.waitFor();
        }
        Arrays.sort(times);
        System.out.printf("%s: kill to view %d ms (median of %d; %d to %d)%n", how, times[ROUNDS / 2] / 1_000_000, ROUNDS, times[0] / 1_000_000,
                times[ROUNDS - 1] / 1_000_000);
    }

    static Process start(JGroupsNetwork network, Path tls) throws Exception {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-cp",
                System.getProperty("java.class.path"), System.getProperty("engine.source", "bench/cluster/Engine.java"), network.address(),
                tls == null ? "" : tls.toString()));
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        return process;
    }

    /** Waits until the view has so many members, and returns the last one. */
    static Member await(Here events, int members) throws InterruptedException {
        while (events.view.members().size() != members) {
            Thread.sleep(1);
        }
        return events.view.members().getLast();
    }

    // --- TLS

    static Path certificate() throws Exception {
        Path store = Files.createTempDirectory("engine").resolve("store.p12");
        new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "keytool").toString(), "-genkeypair", "-keystore", store.toString(),
                "-storepass", "password", "-alias", "node", "-dname", "CN=node", "-keyalg", "EC", "-groupname", "secp256r1").start().waitFor();
        return store;
    }

    static SSLContext context(Path store) throws Exception {
        KeyStore keys = KeyStore.getInstance(store.toFile(), "password".toCharArray());
        KeyManagerFactory keyManagers = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keyManagers.init(keys, "password".toCharArray());
        TrustManagerFactory trustManagers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trustManagers.init(keys);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keyManagers.getKeyManagers(), trustManagers.getTrustManagers(), null);
        return context;
    }
}
