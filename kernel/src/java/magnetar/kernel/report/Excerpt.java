package magnetar.kernel.report;

import java.io.Writer;

/**
 * Keeps the beginning of a text and throws {@link Full} at its writer when it is full. So an infinite value
 * can be printed.
 */
public final class Excerpt extends Writer {
    private final StringBuilder text = new StringBuilder();
    private final int most;

    /** Thrown by a write that exceeds the limit. */
    public static final class Full extends Error {
        private static final long serialVersionUID = 1L;

        private Full() {
            super("full", null, false, false);
        }
    }

    /** Keeps at most so many characters. */
    public Excerpt(int most) {
        this.most = most;
    }

    @Override
    public void write(char[] chars, int from, int count) {
        int room = Math.min(count, most - text.length());
        text.append(chars, from, room);
        if (room < count) {
            throw new Full();
        }
    }

    @Override
    public void write(String s, int from, int count) {
        int room = Math.min(count, most - text.length());
        text.append(s, from, from + room);
        if (room < count) {
            throw new Full();
        }
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}

    /** The text, or its beginning. */
    @Override
    public String toString() {
        return text.toString();
    }
}
