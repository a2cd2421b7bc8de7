package magnetar.peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;

/** A peer on the JVM: reads lines {@code workload number ..}, and answers each with a number, as all peers do. */
public final class Peer {
    private Peer() {}

    /** Nanoseconds, or bytes, or a port. */
    public interface Workload {
        double run(int... n) throws Exception;
    }

    public interface Work {
        void run() throws Exception;
    }

    public static double timed(Work work) throws Exception {
        long start = System.nanoTime();
        work.run();
        return System.nanoTime() - start;
    }

    public static void serve(Map<String, Workload> workloads) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            int[] n = Arrays.stream(words).skip(1).mapToInt(Integer::parseInt).toArray();
            System.gc();
            System.out.printf("%.1f%n", workloads.get(words[0]).run(n));
            System.out.flush();
        }
        System.exit(0);
    }

    static long resident() throws Exception {
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
    }

    /** Bytes of resident memory for each of the n things that are started, and kept alive, by {@code start}. */
    public static double memory(int n, java.util.function.IntFunction<?> start) throws Exception {
        Object[] all = new Object[n];
        System.gc();
        long before = resident();
        for (int i = 0; i < n; i++) {
            all[i] = start.apply(i);
        }
        Thread.sleep(3000);
        System.gc();
        Thread.sleep(1000);
        double bytes = (resident() - before) / (double) n;
        java.lang.ref.Reference.reachabilityFence(all);
        return bytes;
    }

    /** Prime factors by trial division; how many. */
    public static int factors(long number) {
        int count = 0;
        long n = number;
        for (long p = 2; ; p += p > 2 ? 2 : 1) {
            while (n % p == 0 && n > 1) {
                n /= p;
                count++;
            }
            if (n == 1 || p * p >= n) {
                return n == 1 ? count : count + 1;
            }
        }
    }
}
