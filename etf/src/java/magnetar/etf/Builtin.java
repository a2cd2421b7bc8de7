package magnetar.etf;

import clojure.lang.Ratio;
import clojure.lang.Symbol;
import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.time.Instant;
import java.util.Date;
import java.util.UUID;

/**
 * The extensions that every codec has: a tuple of the reserved atom, a tag without a namespace, and the
 * parts of the value. The tags of a program have a namespace, so the two never meet.
 */
final class Builtin {

    static final byte[] SET = head(3, "set");
    static final byte[] BYTES = head(3, "bytes");
    static final byte[] UTF16 = head(3, "utf16");
    static final byte[] KEYWORD = head(4, "keyword");
    static final byte[] DOUBLE = head(3, "double");

    /**
     * The second element of a vector that begins with the reserved keyword; the rest of the vector
     * follows.
     */
    static final byte[] VECTOR = Atoms.bytes("vector");

    static final byte[] NAN = Atoms.bytes("nan");
    static final byte[] INFINITY = Atoms.bytes("infinity");
    static final byte[] MINUS_INFINITY = Atoms.bytes("-infinity");

    private static final byte[] SYMBOL = head(4, "symbol");
    private static final byte[] CHAR = head(3, "char");
    private static final byte[] RATIO = head(4, "ratio");
    private static final byte[] DECIMAL = head(4, "decimal");
    private static final byte[] ID = head(3, "uuid");
    private static final byte[] INSTANT = head(4, "instant");
    private static final byte[] DATE = head(3, "date");

    private Builtin() {}

    /** How a tuple of n elements begins, with its first two. */
    private static byte[] head(int n, String tag) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        bytes.write(Tag.SMALL_TUPLE);
        bytes.write(n);
        bytes.writeBytes(Atoms.RESERVED_BYTES);
        bytes.writeBytes(Atoms.bytes(tag));
        return bytes.toByteArray();
    }

    /** How the tuple of a value begins that is not a collection; null for other values. */
    static byte[] headOf(Object o) {
        return switch (o) {
            case Symbol s -> SYMBOL;
            case Character c -> CHAR;
            case Ratio r -> RATIO;
            case BigDecimal d -> DECIMAL;
            case UUID u -> ID;
            case Instant i -> INSTANT;
            case Date d when d.getClass() == Date.class -> DATE; // a subclass may know more
            default -> null;
        };
    }
}
