package magnetar.kernel.fiber;

import java.util.function.Supplier;

/**
 * A table with one instance for the real world and one for each simulation, for example the names of
 * processes. So entries that one simulation leaves behind do not affect the next.
 *
 * @param <T> the table
 */
public final class PerWorld<T> {
    private final T real;
    private final Supplier<T> make;

    private PerWorld(T real, Supplier<T> make) {
        this.real = real;
        this.make = make;
    }

    /** Makes the table of the real world now, and the table of a simulation on first use. */
    public static <T> PerWorld<T> of(Supplier<T> make) {
        return new PerWorld<>(make.get(), make);
    }

    /** A table of simulations only. */
    public static <T> PerWorld<T> ofSimulations(Supplier<T> make) {
        return new PerWorld<>(null, make);
    }

    /** The table of the world that the current thread is in; null in the real one for a table of simulations only. */
    public T current() {
        World world = World.current();
        return world == World.REAL ? real : world.room(this, make);
    }
}
