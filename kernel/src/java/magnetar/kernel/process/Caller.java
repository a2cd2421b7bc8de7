package magnetar.kernel.process;

import java.lang.StackWalker.StackFrame;
import magnetar.kernel.park.Failures;

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
        return frame.getLineNumber() > 0 && Failures.isOfProgram(frame.getClassName());
    }
}
