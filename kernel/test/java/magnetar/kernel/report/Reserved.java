package magnetar.kernel.report;

/** Gives the checks access to the reserve. */
public final class Reserved {
    private Reserved() {}

    /** True if no part of the reserve is released. */
    public static boolean isWhole() {
        return Reserve.isWhole();
    }
}
