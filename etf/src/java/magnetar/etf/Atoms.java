package magnetar.etf;

import clojure.lang.Keyword;
import clojure.lang.Symbol;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
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

    /** Most names have no more bytes: two of them are compared as numbers. */
    static final int SHORT = 8;

    private static final VarHandle LONGS =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

    private static final int SIZE = 2048; // as many as 11 bits
    private static final Written[] WRITTEN = new Written[SIZE];
    private static final Read[] READ = new Read[SIZE];

    private Atoms() {}

    /** A keyword and its atom; null for one that is not written as an atom. */
    private record Written(Keyword keyword, byte[] bytes) {}

    /** The UTF-8 of an atom, which for a short one is a number as well, and its value. */
    private record Read(long packed, byte[] utf8, Object value) {}

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

    /**
     * The up to eight bytes of a short atom, as one number. It reads eight bytes at once if the array has
     * them, and drops those behind the atom.
     */
    static long packed(byte[] bytes, int from, int n) {
        if (from <= bytes.length - SHORT) {
            return (long) LONGS.get(bytes, from) >>> 8 * (SHORT - n);
        }
        long packed = 0;
        for (int i = from; i < from + n; i++) {
            packed = packed << 8 | bytes[i] & 255;
        }
        return packed;
    }

    /** The place in the cache of a short atom. */
    static int place(long packed) {
        return (int) (packed * 0x9e3779b97f4a7c15L >>> 53);
    }

    /** The place in the cache of an atom with this UTF-8. */
    static int place(byte[] bytes, int from, int to) {
        int hash = to - from;
        for (int i = from; i < to; i++) {
            hash = 31 * hash + bytes[i];
        }
        return (hash ^ hash >>> 11) & SIZE - 1;
    }

    /** The value of the short atom if it is cached, else {@code missing}. */
    static Object cached(int place, long packed, int n, Object missing) {
        Read known = READ[place];
        return known != null && known.packed == packed && known.utf8.length == n ? known.value : missing;
    }

    /** The value of the atom with this UTF-8 if it is cached, else {@code missing}. */
    static Object cached(int place, byte[] bytes, int from, int to, Object missing) {
        Read known = READ[place];
        boolean isKnown = known != null && Arrays.equals(known.utf8, 0, known.utf8.length, bytes, from, to);
        return isKnown ? known.value : missing;
    }

    static void cache(int place, byte[] bytes, int from, int to, Object value) {
        int n = to - from;
        long packed = n > 0 && n <= SHORT ? packed(bytes, from, n) : 0;
        READ[place] = new Read(packed, Arrays.copyOfRange(bytes, from, to), value);
    }
}
