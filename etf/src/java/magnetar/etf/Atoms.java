package magnetar.etf;

import clojure.lang.Keyword;
import clojure.lang.Symbol;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * The bytes of atoms, and two caches of them that all codecs share.
 *
 * <p>A cache is an array whose places are overwritten, read and written without a lock. An entry is
 * immutable, so a thread that sees it sees it whole. The most that a race costs is an entry. A peer can
 * overwrite all places, which makes decoding slower. No peer can make the caches larger.
 */
final class Atoms {

    static final int MOST_CHARACTERS = 255;

    /** Marks a tuple as a value that Erlang has no term for. Its second element is the tag. */
    static final Keyword RESERVED = Keyword.intern("$clj");

    static final Keyword NIL_KEYWORD = Keyword.intern("nil");
    static final Keyword UNDEFINED_KEYWORD = Keyword.intern("undefined");

    static final byte[] NIL = bytes("nil");
    static final byte[] UNDEFINED = bytes("undefined");
    static final byte[] TRUE = bytes("true");
    static final byte[] FALSE = bytes("false");
    static final byte[] RESERVED_BYTES = bytes("$clj");

    private static final int SIZE = 2048;
    private static final Written[] WRITTEN = new Written[SIZE];
    private static final Read[] READ = new Read[SIZE];

    private Atoms() {}

    /** A keyword and its atom; null for one that is not written as an atom. */
    private record Written(Keyword keyword, byte[] bytes) {}

    /** The UTF-8 of an atom and its value. */
    private record Read(byte[] utf8, Object value) {}

    /** The term of an atom whose name has at most 255 characters, and is UTF-8. */
    static byte[] bytes(String name) {
        byte[] utf8 = name.getBytes(StandardCharsets.UTF_8);
        boolean small = utf8.length < 256;
        byte[] term = new byte[utf8.length + (small ? 2 : 3)];
        term[0] = (byte) (small ? Tag.SMALL_ATOM_UTF8 : Tag.ATOM_UTF8);
        term[small ? 1 : 2] = (byte) utf8.length;
        if (!small) {
            term[1] = (byte) (utf8.length >> 8);
        }
        System.arraycopy(utf8, 0, term, term.length - utf8.length, utf8.length);
        return term;
    }

    /** May this be the name of an atom? */
    static boolean isName(String text) {
        return Text.utf8Length(text) >= 0 && text.codePointCount(0, text.length()) <= MOST_CHARACTERS;
    }

    /** Does the atom with the name of the keyword come back as this keyword? The atom nil does not. */
    private static boolean isPlain(Keyword keyword, String name) {
        boolean isValue = name.equals("nil") || constant(name) != null;
        return !isValue && isName(name) && Symbol.intern(name).equals(keyword.sym);
    }

    /** The term of the keyword, or null if it is not an atom. */
    static byte[] of(Keyword keyword) {
        int at = keyword.hasheq() & SIZE - 1;
        Written known = WRITTEN[at];
        if (known != null && known.keyword == keyword) {
            return known.bytes;
        }
        String name = keyword.sym.toString();
        byte[] bytes = isPlain(keyword, name) ? bytes(name) : null;
        WRITTEN[at] = new Written(keyword, bytes);
        return bytes;
    }

    /** The value of the atoms true and false; else null. */
    static Boolean constant(String name) {
        return switch (name) {
            case "true" -> Boolean.TRUE;
            case "false" -> Boolean.FALSE;
            default -> null;
        };
    }

    /** The place in the cache of an atom with this UTF-8. */
    static int place(byte[] bytes, int from, int to) {
        int hash = to - from;
        for (int i = from; i < to; i++) {
            hash = 31 * hash + bytes[i];
        }
        return (hash ^ hash >>> 11) & SIZE - 1;
    }

    /** The value of the atom with this UTF-8 if it is cached, else {@code missing}. */
    static Object cached(int place, byte[] bytes, int from, int to, Object missing) {
        Read known = READ[place];
        boolean isKnown = known != null && Arrays.equals(known.utf8, 0, known.utf8.length, bytes, from, to);
        return isKnown ? known.value : missing;
    }

    static void cache(int place, byte[] bytes, int from, int to, Object value) {
        READ[place] = new Read(Arrays.copyOfRange(bytes, from, to), value);
    }
}
