package magnetar.kernel.sched;

/** What a scheduler asks of a fiber. */
public interface Schedulable {
    /** True if it has woken another one by a hand-over since it last parked. Asked by its own thread. */
    boolean hasHandedOver();

    /** Told that it wakes another one by a hand-over, on its own thread. */
    void handsOver();

    /** True at some of its turns: the carrier that runs it then is to take in threads that wait outside of its queue. */
    boolean looksOutside();
}
