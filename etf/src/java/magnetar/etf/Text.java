package magnetar.etf;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/** Text as UTF-8, exactly: what Java's decoder would replace by a question mark is refused instead. */
final class Text {

    private static final VarHandle LONGS =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.nativeOrder());
    private static final long HIGH_BITS = 0x8080808080808080L;

    private Text() {}

    /** How many bytes the text has as UTF-8, or -1 if it has half of a surrogate pair, which has no UTF-8. */
    static long utf8Length(String text) {
        long n = 0;
        int end = text.length();
        for (int i = 0; i < end; i++) {
            char c = text.charAt(i);
            if (c < 0x80) {
                n++;
            } else if (c < 0x800) {
                n += 2;
            } else if (!Character.isSurrogate(c)) {
                n += 3;
            } else if (i + 1 < end && Character.isSurrogatePair(c, text.charAt(i + 1))) {
                n += 4;
                i++;
            } else {
                return -1;
            }
        }
        return n;
    }

    static boolean isAscii(byte[] bytes, int from, int to) {
        int i = from;
        for (; i <= to - Long.BYTES; i += Long.BYTES) { // eight bytes at a time, as far as the first that is not
            if (((long) LONGS.get(bytes, i) & HIGH_BITS) != 0) {
                return false;
            }
        }
        for (; i < to; i++) {
            if (bytes[i] < 0) {
                return false;
            }
        }
        return true;
    }

    private static boolean isContinuation(byte[] bytes, int at, int to) {
        return at < to && (bytes[at] & 0xc0) == 0x80;
    }

    /** The length of the character that begins with this byte, which is not ASCII; 0 if no character does. */
    private static int wide(byte[] bytes, int at, int to) {
        int first = bytes[at] & 255;
        if (first < 0xc2 || first > 0xf4 || !isContinuation(bytes, at + 1, to)) {
            return 0;
        }
        if (first < 0xe0) {
            return 2;
        }
        int second = bytes[at + 1] & 255;
        if (!isContinuation(bytes, at + 2, to)) {
            return 0;
        }
        if (first < 0xf0) { // not overlong, and not half of a surrogate pair
            return first == 0xe0 && second < 0xa0 || first == 0xed && second > 0x9f ? 0 : 3;
        }
        boolean inRange = !(first == 0xf0 && second < 0x90 || first == 0xf4 && second > 0x8f);
        return inRange && isContinuation(bytes, at + 3, to) ? 4 : 0;
    }

    static boolean isUtf8(byte[] bytes, int from, int to) {
        for (int i = from; i < to; ) {
            int n = bytes[i] >= 0 ? 1 : wide(bytes, i, to);
            if (n == 0) {
                return false;
            }
            i += n;
        }
        return true;
    }

    /** The text of these bytes, or null if they are not UTF-8. */
    static String utf8(byte[] bytes, int from, int to) {
        boolean isAscii = isAscii(bytes, from, to);
        return isAscii || isUtf8(bytes, from, to) ? string(bytes, from, to, isAscii) : null;
    }

    /** The text of these bytes, which are UTF-8. */
    static String string(byte[] bytes, int from, int to, boolean isAscii) {
        return new String(bytes, from, to - from, isAscii ? StandardCharsets.ISO_8859_1 : StandardCharsets.UTF_8);
    }
}
