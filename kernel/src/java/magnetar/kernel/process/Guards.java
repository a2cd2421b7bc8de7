package magnetar.kernel.process;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import magnetar.kernel.fiber.PerEnvironment;
import magnetar.kernel.report.Failures;

/**
 * Failures of guards. If a guard throws while a clause is tried, the clause does not match, and the failure
 * is reported once for each clause.
 *
 * <p>Invariant: a clause is recorded as seen before its failure is reported. So a thousand processes at one
 * receive make one report. The record grows with the clauses of the program, not with its messages. Only the
 * failing path comes here.
 *
 * <p>Difference from Erlang, where a failing guard is silent: there a guard is one of a few built-in tests,
 * here any function.
 */
public final class Guards {
    /**
     * The clauses that were reported. Each simulation has its own, so that a second run does not differ from
     * the first.
     */
    private static final PerEnvironment<Set<String>> SEEN = PerEnvironment.of(ConcurrentHashMap::newKeySet);

    // Set or read by any thread. Null stands for the hook of failures.
    private static volatile BiConsumer<String, Throwable> hook;

    private Guards() {}

    /**
     * Sets the function that gets each failure with the text of its clause; null restores the default.
     * Returns the former one.
     */
    public static synchronized BiConsumer<String, Throwable> setHook(BiConsumer<String, Throwable> next) {
        BiConsumer<String, Throwable> before = hook;
        hook = next;
        return before;
    }

    /** Forgets which clauses were reported. */
    public static void forget() {
        SEEN.current().clear();
    }

    /** Reports the failure unless this clause was reported before. */
    static void failed(String clause, Throwable error) {
        if (!SEEN.current().add(clause)) {
            return;
        }
        BiConsumer<String, Throwable> h = hook;
        if (h == null) {
            Failures.report(clause, Thread.currentThread(), error);
            return;
        }
        try {
            h.accept(clause, error);
        } catch (Exception inHook) {
            Failures.report(clause + ", in the hook of guards", Thread.currentThread(), inHook);
        }
    }
}
