package magnetar.kernel.process;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import magnetar.kernel.fiber.PerWorld;
import magnetar.kernel.report.Failures;

/**
 * What a guard throws while a clause is tried: the clause does not match, and the failure is reported once for each clause.
 *
 * <p>Invariants: a clause is among those seen before its failure is reported, so that a thousand processes at one receive make one
 * report; only the failing path comes here. They grow with the clauses of the program, not with its messages.
 *
 * <p>Differs from Erlang, where a failing guard says nothing at all: there a guard is a handful of built-in tests, here any function.
 */
public final class Guards {
    /** Which were reported; in a simulation by this one, or a second run would differ from the first. */
    private static final PerWorld<Set<String>> SEEN = PerWorld.of(ConcurrentHashMap::newKeySet);

    // Set or read by any thread; null: the hook of failures.
    private static volatile BiConsumer<String, Throwable> hook;

    private Guards() {}

    /** Sets what takes the failures, each with the text of its clause, or with null the default way again; returns the hook before. */
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
