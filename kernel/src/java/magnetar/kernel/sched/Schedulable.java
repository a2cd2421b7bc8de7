package magnetar.kernel.sched;

/** A fiber as a scheduler sees it. */
public interface Schedulable {
    /** True if this fiber has handed its carrier over since it last parked. Called on its own thread. */
    boolean hasHandedOver();

    /** Records that this fiber hands its carrier over. Called on its own thread. */
    void handsOver();
}
