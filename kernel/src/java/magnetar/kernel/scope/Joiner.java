package magnetar.kernel.scope;

/** Decides when a scope has what it wants. */
@FunctionalInterface
public interface Joiner {
    /** Called with each fork that has ended, one at a time, under the scope's lock; true cancels the others. */
    boolean ended(Fork fork);
}
