package magnetar.erlang.wire;

import java.io.Writer;
import java.util.function.Consumer;

/** A writer that gives text on when it is flushed, or when there is much of it. Any number of threads may write. */
public final class Output extends Writer {
    private static final int MUCH = 8192;

    private final Consumer<String> to;
    private final StringBuilder text = new StringBuilder(); // guarded by the lock of the writer

    /** A writer to this function. */
    public Output(Consumer<String> to) {
        this.to = to;
    }

    @Override
    public void write(char[] chars, int offset, int length) {
        synchronized (lock) {
            text.append(chars, offset, length);
            // Both halves of a character have to be in one text.
            if (text.length() >= MUCH && !Character.isHighSurrogate(text.charAt(text.length() - 1))) {
                flush();
            }
        }
    }

    @Override
    public void flush() {
        synchronized (lock) {
            if (!text.isEmpty()) {
                String all = text.toString();
                text.setLength(0);
                to.accept(all);
            }
        }
    }

    @Override
    public void close() {
        flush();
    }
}
