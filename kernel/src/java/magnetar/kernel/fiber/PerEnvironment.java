package magnetar.kernel.fiber;

import java.util.function.Supplier;

/**
 * A table with one instance for the real environment, one for each simulation, and one for each node of it, for
 * example the names of processes. So entries that one simulation leaves behind do not affect the next.
 *
 * @param <T> the table
 */
public final class PerEnvironment<T> {
    private final T real;
    private final Supplier<T> make;

    private PerEnvironment(T real, Supplier<T> make) {
        this.real = real;
        this.make = make;
    }

    /** Makes the table of the real environment now, and the table of a simulation on first use. */
    public static <T> PerEnvironment<T> of(Supplier<T> make) {
        return new PerEnvironment<>(make.get(), make);
    }

    /** A table of simulations only. */
    public static <T> PerEnvironment<T> ofSimulations(Supplier<T> make) {
        return new PerEnvironment<>(null, make);
    }

    /** The table of a simulated environment. */
    public T of(Environment simulated) {
        return simulated.local(this, make);
    }

    /**
     * The table of the environment that the current thread is in; null in the real one for a table of
     * simulations only.
     */
    public T current() {
        Environment environment = Environment.current();
        return environment == Environment.REAL ? real : environment.local(this, make);
    }
}
