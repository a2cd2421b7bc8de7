package magnetar.check;

import java.util.Map;

/** Runs checks by name: {@code Main NAME..}; exit 1 and one line for the first that fails. */
public final class Main {
    /** A check; throws an {@code AssertionError} that says what it saw. */
    interface Check {
        void run() throws Exception;
    }

    static final Map<String, Check> CHECKS = Map.ofEntries(
            Map.entry("publication", Races::publication),
            Map.entry("wake-up", Races::wakeUp),
            Map.entry("crossing", Races::crossing),
            Map.entry("crossing-foreign", Races::crossingForeign),
            Map.entry("ring", Races::ring),
            Map.entry("interrupt-after-claim", Races::interruptAfterClaim),
            Map.entry("expiry-after-claim", Races::expiryAfterClaim),
            Map.entry("cause-first", Races::causeFirst),
            Map.entry("level-triggered", Races::levelTriggered),
            Map.entry("shielded", Races::shielded),
            Map.entry("deadlines", Scopes::deadlines),
            Map.entry("closing", Scopes::closing),
            Map.entry("ghosts", Races::ghosts),
            Map.entry("close", Races::close),
            Map.entry("close-is-visible", Races::closeIsVisible),
            Map.entry("refill", Races::refill),
            Map.entry("never-early", Timing::neverEarly),
            Map.entry("earlier-timer", Timing::earlierTimer),
            Map.entry("wheel-on-clock", Timing::wheelOnClock),
            Map.entry("idle", Timing::idle),
            Map.entry("released", Timing::released),
            Map.entry("not-on-timer-thread", Timing::notOnTimerThread),
            Map.entry("durations", Timing::durations),
            Map.entry("pairs", Claims::pairs),
            Map.entry("endings", Claims::endings),
            Map.entry("shared-timeout", Timing::sharedTimeout),
            Map.entry("reachability", Life::reachability),
            Map.entry("fairness", Life::fairness),
            Map.entry("blockers", () -> Life.blockers(2_000)),
            Map.entry("blockers-100000", () -> Life.blockers(100_000)),
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
