package magnetar.kernel.sched;

/** The numbers that a program sets by system properties. */
public final class Settings {
    private Settings() {}

    /**
     * The number that the property is set to, or the default if it is not set. If it is set to what is no number, or less
     * than {@code least}, a line on standard error says so, and the default counts.
     */
    public static int number(String property, int least, int byDefault) {
        String text = System.getProperty(property);
        if (text == null) {
            return byDefault;
        }
        try {
            int n = Integer.parseInt(text.strip());
            if (n >= least) {
                return n;
            }
        } catch (NumberFormatException notANumber) {
            // said below
        }
        System.err.println("magnetar: the property " + property + " wants a whole number, at least " + least + "; it is set to \"" + text
                + "\", so " + byDefault + " is taken.");
        return byDefault;
    }
}
