package magnetar.kernel.process;

import java.lang.StackWalker.StackFrame;
import java.util.Iterator;
import java.util.function.Function;
import java.util.stream.Stream;
import magnetar.kernel.report.Frames;

/** The source line of the program that called into the library. */
public final class Caller {
    private static final StackWalker WALKER = StackWalker.getInstance();
    private static final Function<Stream<StackFrame>, String> FIRST = Caller::first;

    private Caller() {}

    /** The line, as in "my/app.clj:12"; null if no line of the program is on the stack. */
    public static String line() {
        return WALKER.walk(FIRST);
    }

    private static String first(Stream<StackFrame> frames) {
        for (Iterator<StackFrame> left = frames.iterator(); left.hasNext(); ) {
            StackFrame f = left.next();
            if (isOfProgram(f)) {
                return f.getFileName() + ":" + f.getLineNumber();
            }
        }
        return null;
    }

    private static boolean isOfProgram(StackFrame frame) {
        return frame.getLineNumber() > 0 && Frames.isOfProgram(frame.getClassName());
    }
}
