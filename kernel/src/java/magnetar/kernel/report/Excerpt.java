package magnetar.kernel.report;

import java.io.Writer;

/** Keeps the beginning of what is written, and throws {@link Full} at whoever writes on: so what has no end can be printed. */
public final class Excerpt extends Writer {
    private final StringBuilder text = new StringBuilder();
    private final int most;

    /** Thrown at whoever writes more than is kept. */
    public static final class Full extends Error {
        private static final long serialVersionUID = 1L;

        private Full() {
            super("full", null, false, false);
        }
    }

    /** Keeps so many characters. */
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

    /** What was written, or its beginning. */
    @Override
    public String toString() {
        return text.toString();
    }
}
