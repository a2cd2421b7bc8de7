package magnetar.kernel.report;

/**
 * What a thread does with an error that nobody catches, where the program has set no handler: the same as the JVM, except when memory has ended. The JVM prints the
 * stack then, which needs memory, and so says only that its handler has failed too. This one reports the failure, for which {@link Reserve} has memory.
 */
public final class NoMemory implements Failures.Handler {
    private NoMemory() {}

    /** Makes it the default handler, unless the program has set one, and sets memory aside for its reports. */
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
