package magnetar.kernel.process;

import java.lang.StackWalker.StackFrame;

/** The source line of the program that called into the library. */
public final class Caller {
    private static final StackWalker WALKER = StackWalker.getInstance();

    private Caller() {}

    /** As in "my/app.clj:12"; null if no line of the program is on the stack. */
    public static String line() {
        return WALKER.walk(frames -> frames.filter(Caller::isOfProgram).findFirst())
                .map(f -> f.getFileName() + ":" + f.getLineNumber()).orElse(null);
    }

    private static boolean isOfProgram(StackFrame frame) {
        String c = frame.getClassName();
        return frame.getLineNumber() > 0 && !(c.startsWith("magnetar.kernel.") || c.startsWith("magnetar.actor$") || c.startsWith("magnetar.impl.")
                || c.startsWith("clojure.") || c.startsWith("java.") || c.startsWith("jdk."));
    }
}
