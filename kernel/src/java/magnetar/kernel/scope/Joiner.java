package magnetar.kernel.scope;

/** Decides when a scope has all the results that it needs. */
@FunctionalInterface
public interface Joiner {
    /**
     * Called with each fork that has ended, one at a time, under the scope's lock. True cancels the others.
     */
    boolean ended(Fork fork);

    /** True if no fork alone gives the scope what it needs: only a failure cancels the others. For inspection. */
    default boolean needsAll() {
        return false;
    }
}
