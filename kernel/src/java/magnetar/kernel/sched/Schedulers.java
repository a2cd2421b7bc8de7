package magnetar.kernel.sched;

/** The scheduler of this JVM: {@link HandOff} where that is possible and wanted, else the {@link JdkScheduler}. */
public final class Schedulers {
    private static final Scheduler CHOSEN = HandOff.isOn() ? new HandOff() : new JdkScheduler();

    static {
        CHOSEN.startsUntracked(); // to find out takes a thread, which no simulation may see
        Ticker.tickFor(CHOSEN);
    }

    private Schedulers() {}

    /** The scheduler of this JVM. */
    public static Scheduler chosen() {
        return CHOSEN;
    }
}
