package magnetar.kernel.sim;

import magnetar.kernel.report.Frames;

/** Lines of the program on a stack. */
final class Lines {
    private Lines() {}

    /** As in "my/app.clj:12 (my.app/f)", the innermost one; null if there is none. */
    static String ofProgram(StackTraceElement[] frames) {
        for (StackTraceElement f : frames) {
            if (f.getLineNumber() > 0 && Frames.isOfProgram(f.getClassName())) {
                return f.getFileName() + ":" + f.getLineNumber();
            }
        }
        return null;
    }
}
