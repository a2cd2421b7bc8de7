package magnetar.kernel.sched;

/** The scheduler of this JVM: {@link HandOff} where that is possible and wanted, else the {@link JdkScheduler}. */
public final class Schedulers {
    private static final Scheduler CHOSEN = HandOff.isOn() ? new HandOff() : new JdkScheduler();

    static {
        CHOSEN.startsUntracked(); // here, because the first call may start a thread: not in a simulation
        Ticker.tickFor(CHOSEN);
    }

    private Schedulers() {}

    /** The scheduler of this JVM. */
    public static Scheduler chosen() {
        return CHOSEN;
    }
}
