package magnetar.kernel.sim;

import magnetar.kernel.report.Frames;

/** Finds source lines of the program on a stack. */
final class SourceLines {
    private SourceLines() {}

    /** The innermost one, as in "my/app.clj:12"; null if no frame is of the program. */
    static String ofProgram(StackTraceElement[] frames) {
        for (StackTraceElement f : frames) {
            if (f.getLineNumber() > 0 && Frames.isOfProgram(f.getClassName())) {
                return f.getFileName() + ":" + f.getLineNumber();
            }
        }
        return null;
    }
}
