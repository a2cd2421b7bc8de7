package magnetar.kernel.scope;

/** Decides when a scope has all the results that it needs. */
@FunctionalInterface
public interface Joiner {
    /**
     * Called with each fork that has ended, one at a time, under the scope's lock. True cancels the others.
     */
    boolean ended(Fork fork);
}
