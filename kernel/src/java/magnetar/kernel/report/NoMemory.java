package magnetar.kernel.report;

/**
 * The default handler of uncaught exceptions, if the program has set none. It does what the JVM does, except
 * when memory has run out. Printing a stack needs memory, so the JVM would only say that its handler has
 * failed too. This handler reports the failure, for which {@link Reserve} has memory.
 */
public final class NoMemory implements Failures.Handler {
    private NoMemory() {}

    /** Makes it the default handler, unless the program has set one, and reserves memory for its reports. */
    public static void install() {
        Reserve.refill();
        if (Thread.getDefaultUncaughtExceptionHandler() == null) {
            Thread.setDefaultUncaughtExceptionHandler(new NoMemory());
        }
    }

    @Override
    public void uncaughtException(Thread t, Throwable e) {
        if (Reserve.isNeeded(e)) {
            Failures.report(t, e);
        } else {
            System.err.print("Exception in thread \"" + t.getName() + "\" ");
            e.printStackTrace(System.err);
        }
    }
}
