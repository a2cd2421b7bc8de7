package magnetar.check;

import java.util.Map;

/** Runs checks by name: {@code Main NAME..}; exit 1 and one line for the first that fails. */
public final class Main {
    /** A check; throws an {@code AssertionError} that says what it saw. */
    interface Check {
        void run() throws Exception;
    }

    static final Map<String, Check> CHECKS = Map.ofEntries(
            Map.entry("stress", () -> Stress.run(1_000, 50)),
            Map.entry("stress-10000", () -> Stress.run(10_000, 50)),
            Map.entry("stress-long", () -> Stress.run(10_000, 1_000)));

    private Main() {}

    public static void main(String[] args) {
        for (String name : args) {
            run(name);
        }
        System.exit(0);
    }

    private static void run(String name) {
        long begin = System.nanoTime();
        try {
            CHECKS.get(name).run();
            System.out.printf("green %s %d ms%n", name, (System.nanoTime() - begin) / 1_000_000);
        } catch (Throwable t) {
            System.out.println("red " + name + " " + t.getMessage());
            Runtime.getRuntime().halt(1);
        }
    }
}
