package magnetar.peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
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

    public static void serve(Map<String, Workload> workloads) {
        try {
            answerLines(workloads);
            System.exit(0);
        } catch (Throwable e) { // other threads would keep a JVM alive that answers no more
            e.printStackTrace();
            System.exit(1);
        }
    }

    private static void answerLines(Map<String, Workload> workloads) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.gc();
            System.out.printf("%.1f%n", answer(workloads, line.split(" ")));
            System.out.flush();
        }
    }

    private static double answer(Map<String, Workload> workloads, String[] words) throws Exception {
        if (words[0].equals("times")) {
            double sum = 0;
            for (int i = 0; i < Integer.parseInt(words[1]); i++) {
                sum += answer(workloads, Arrays.copyOfRange(words, 2, words.length));
            }
            return sum;
        }
        return workloads.get(words[0]).run(Arrays.stream(words).skip(1).mapToInt(Integer::parseInt).toArray());
    }

    /** Lets n fibers get to where they wait. */
    public static void settle(int n) throws InterruptedException {
        Thread.sleep(3L * n / 1000);
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

    /** The request of a page of the slow server on this port. */
    public static HttpRequest page(int port, int i) {
        return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/" + i)).build();
    }

    /** Fails if that is not the page. */
    public static int checked(HttpResponse<String> answer, int i) {
        check(answer.body().equals("page /" + i), "not page " + i);
        return answer.body().length();
    }

    /** A page, by the JDK's blocking client. */
    static int fetch(HttpClient client, int port, int i) throws Exception {
        return checked(client.send(page(port, i), HttpResponse.BodyHandlers.ofString()), i);
    }

    /** Ends the program, which the driver notices, if it did not do its work. */
    public static void check(boolean right, String wrong) {
        if (!right) {
            System.err.println(wrong);
            System.exit(1);
        }
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
