package magnetar.kernel.sched;

/** The scheduler of this JVM: {@link HandOff} where that is possible and wanted, else the {@link JdkScheduler}. */
public final class Schedulers {
    private static final Scheduler CHOSEN = HandOff.isOn() ? new HandOff() : new JdkScheduler();

    private static final String UNKNOWN_JDK = "magnetar: this version of Magnetar does not know the virtual threads of JDK " + Runtime.version().feature()
            + " as they are here, so fibers are woken without hand-off. All works, but a wake-up takes longer. -Dmagnetar.hand-off=false"
            + " chooses that without this line.";

    static {
        CHOSEN.startsUntracked(); // here, because the first call may start a thread: not in a simulation
        SchedulerMonitor.tickFor(CHOSEN);
        if (!HandOff.isOn() && HandOff.isExpected()) {
            System.err.println(UNKNOWN_JDK);
        }
    }

    private Schedulers() {}

    /** The scheduler of this JVM. */
    public static Scheduler chosen() {
        return CHOSEN;
    }
}
