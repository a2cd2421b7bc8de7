package magnetar.etf;

import clojure.lang.BigInt;
import clojure.lang.IPersistentCollection;
import clojure.lang.IPersistentList;
import clojure.lang.IPersistentMap;
import clojure.lang.IPersistentSet;
import clojure.lang.IPersistentVector;
import clojure.lang.ITransientMap;
import clojure.lang.ITransientSet;
import clojure.lang.Keyword;
import clojure.lang.PersistentArrayMap;
import clojure.lang.PersistentHashMap;
import clojure.lang.PersistentHashSet;
import clojure.lang.PersistentList;
import clojure.lang.PersistentVector;
import clojure.lang.Ratio;
import clojure.lang.Sequential;
import clojure.lang.Symbol;
import clojure.lang.Util;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;

/**
 * Reads terms from a part of an array, which is not copied. It counts the atoms that it has made keywords
 * of, so each connection has its own.
 *
 * <p>One thread at a time may use a decoder. Another thread may go on with it after a handover that makes
 * writes visible, such as a lock or a queue. All decoders share their codec. The bytes must not change while
 * they are read, and the value holds none of them.
 *
 * <p>It reads one term at a time. What an extension or a hook decodes meanwhile needs a decoder of its own,
 * and gets an IllegalStateException from this one.
 *
 * <p>No length is believed. A collection says how many elements it has, and each of them has at least one
 * byte: what all open collections still wait for is at most what is left of the input. So the memory that
 * is taken before the elements are there is bounded by the input, also where lengths are nested.
 *
 * <p>The memory of the value is counted as it grows, by what each object takes in a JVM of 64 bits with
 * compressed pointers. Keywords are not counted, which have their own limit, nor what extensions and hooks
 * make. No term is refused for a value below {@link #FREE_MEMORY}.
 */
public final class Decoder {

    private static final int MOST_IN_ARRAY_MAP = 8;
    private static final int MOST_IN_TAIL = 32;
    private static final int HEADER_OF_COMPRESSED = 6;

    /** A byte of deflated data gives at most 1032 bytes. */
    private static final long MOST_INFLATION = 1040;

    /** As much is taken before it is inflated. */
    private static final long FIRST_INFLATION = 4;

    /** The most bytes of an integer: one more bit than BigInteger has would be an ArithmeticException. */
    private static final int LONGEST_INTEGER = 1 << 27;

    /**
     * A value of so many bytes is made of any term. Else a set of 20,000 integers were refused, whose nodes
     * are nearly empty, and one of 100,000 were not.
     */
    private static final long FREE_MEMORY = 4 << 20;

    /** The bytes of keys that may be compared for any term, and for each byte of it. */
    private static final long FREE_WORK = 4 << 20;

    private static final int MOST_WORK = 128;

    private static final int BOXED = 16;
    private static final int LIST = 32;
    private static final int CELL = 40;
    private static final int SMALL_MAP = 32;
    private static final int VECTOR = 40;

    private static final Object MISSING = new Object();
    private final Codec codec;
    private final List<Object> made = new ArrayList<>(0); // keeps the keywords, which would be counted again
    private int atoms; // of how many atoms these have the length

    private byte[] in;
    private int from;
    private int position;
    private int end;
    private int awaited;
    private int depth;
    private int keys;
    private long memory; // how many more bytes the value may take
    private int unequal; // values so far that are equal to themselves only: byte arrays and NaN
    private int compared; // in how many keys and elements of sets the position is
    private boolean nested; // is a key of the map, or an element of the set, a collection?
    private long extra; // what comparing the value so far takes more than its bytes
    private long work; // what comparing keys has taken so far, in bytes
    private Set<ByteBuffer> different; // the terms of the keys of a map, or elements of a set, that have such
    private Object[] references;

    /** A decoder for one connection. */
    public Decoder(Codec codec) {
        this.codec = codec;
    }

    // ---- for its users

    /** The value of these bytes, which are one term and nothing else. */
    public Object decode(byte[] bytes) {
        return decode(bytes, 0, bytes.length);
    }

    /** The value of this part of the array, which is one term and nothing else. */
    public Object decode(byte[] bytes, int offset, int length) {
        return term(bytes, offset, length, null, true);
    }

    /**
     * The value of the term that begins at the offset. It may end before the part does: see {@link
     * #position}.
     */
    public Object read(byte[] bytes, int offset, int length) {
        return term(bytes, offset, length, null, false);
    }

    /**
     * As {@link #read}, of a term without the byte of the version, whose references to cached atoms mean
     * these: keywords, true, false or null.
     */
    public Object read(byte[] bytes, int offset, int length, Object[] atoms) {
        return term(bytes, offset, length, atoms, false);
    }

    /**
     * The value of the atom with this UTF-8: a keyword, true, false or null. It is counted as an atom of a
     * term. So the atoms that a connection keeps for later terms are made by its decoder.
     */
    public Object atom(byte[] bytes, int offset, int length) {
        check(bytes, offset, length);
        begin(bytes, offset, length, null);
        try {
            return atom(length);
        } catch (Refusal refusal) {
            throw refusal.onDecode(position - from);
        } finally {
            in = null;
        }
    }

    /** Where the last term that was read has ended, as an index of the array. */
    public int position() {
        return position;
    }

    private Object term(byte[] bytes, int offset, int length, Object[] atoms, boolean whole) {
        check(bytes, offset, length);
        begin(bytes, offset, length, atoms);
        try {
            if (length > codec.maxSize) {
                throw tooLong();
            }
            int after = atoms == null ? version() : -1;
            memory = Math.max(FREE_MEMORY, (long) codec.maxGrowth * (end - position));
            Object value = read();
            if (after >= 0) { // the position is in what was compressed
                if (position != end) {
                    throw bad("ends before what was compressed does");
                }
                position = after;
                end = offset + length;
            }
            if (whole && position != end) {
                throw bad("has " + (end - position) + " more bytes behind it");
            }
            take(0);
            return value;
        } catch (Refusal refusal) {
            throw refusal.onDecode(position - from);
        } catch (StackOverflowError e) {
            throw tooDeepForStack().onDecode(position - from);
        } finally {
            in = null;
            references = null;
        }
    }

    private void check(byte[] bytes, int offset, int length) {
        if (offset < 0 || length < 0 || length > bytes.length - offset) {
            throw new IndexOutOfBoundsException("offset " + offset + ", length " + length + " of "
                    + bytes.length + " bytes");
        }
        if (in != null) {
            throw new IllegalStateException("This decoder is reading a term, and reads one at a time. "
                    + "Give what decodes another one meanwhile a decoder of its own.");
        }
    }

    private void begin(byte[] bytes, int offset, int length, Object[] atoms) {
        in = bytes;
        from = offset;
        position = offset;
        end = offset + length;
        awaited = 0;
        depth = 0;
        keys = 0;
        compared = 0;
        nested = false;
        extra = 0;
        work = 0;
        different = null;
        references = atoms;
    }

    // ---- refusals

    private static Refusal bad(String what) {
        return Refusal.refusal("bad-term", what + ".");
    }

    private Refusal tooLong() {
        return Refusal.limit(Refusal.MAX_SIZE, codec.maxSize, "has more bytes than");
    }

    private static Refusal tooDeepForStack() {
        return Refusal.refusal("term-limit", "nests deeper than the stack of this thread allows. "
                        + "Give the codec a smaller :max-depth.").with(Refusal.LIMIT, Refusal.MAX_DEPTH);
    }

    private static Refusal failed(String what, Throwable cause) {
        return Refusal.refusal("bad-term", what, cause);
    }

    // ---- memory

    /** Counts bytes of the value's memory. What is smaller than a collection is subtracted without a look. */
    private void take(long bytes) {
        memory -= bytes;
        if (memory < 0) {
            throw tooMuchMemory();
        }
    }

    private Refusal tooMuchMemory() {
        return Refusal.limit(Refusal.MAX_GROWTH, codec.maxGrowth, "takes more memory for each of its bytes than");
    }

    private static long array(long bytes) {
        return 16 + bytes + 7 & ~7;
    }

    private static long pointers(long n) {
        return array(4 * n);
    }

    private static long text(long bytes) {
        return 24 + array(bytes);
    }

    // ---- bytes

    private void need(long n) {
        if (n > end - position) {
            throw cutOff(n);
        }
    }

    private Refusal cutOff(long n) {
        return bad("is cut off (bytes needed: " + n + ", left: " + (end - position) + ")");
    }

    private int u1() {
        need(1);
        return in[position++] & 255;
    }

    private int u2() {
        need(2);
        int at = position;
        position = at + 2;
        return (in[at] & 255) << 8 | in[at + 1] & 255;
    }

    private int s4() {
        need(4);
        int at = position;
        position = at + 4;
        return (in[at] & 255) << 24 | (in[at + 1] & 255) << 16 | (in[at + 2] & 255) << 8 | in[at + 3] & 255;
    }

    private long u4() {
        return s4() & Range.UNSIGNED_INT;
    }

    private long s8() {
        return (long) s4() << 32 | u4();
    }

    private byte[] raw(long n) {
        need(n);
        byte[] bytes = Arrays.copyOfRange(in, position, position + (int) n);
        position += (int) n;
        return bytes;
    }

    /**
     * Reads the byte of the version, and inflates what follows if it is compressed; returns where that
     * ends, or -1.
     */
    private int version() {
        need(2);
        if (u1() != Tag.VERSION) {
            position--;
            throw bad("begins with the byte " + (in[position] & 255) + ", where 131 is due as the version");
        }
        return (in[position] & 255) == Tag.COMPRESSED ? inflate() : -1;
    }

    private int inflate() {
        position++;
        long size = u4();
        if (size > codec.maxSize) {
            throw tooLong();
        }
        if (size > MOST_INFLATION * (end - position)) {
            throw bad("tells " + size + " bytes, more than " + (end - position) + " compressed bytes can be");
        }
        Inflater inflater = new Inflater();
        try {
            inflater.setInput(in, position, end - position);
            byte[] inflated = inflated(inflater, (int) size);
            if (inflated == null || inflater.getRemaining() == end - position || !isFinished(inflater)) {
                throw bad("is compressed, and does not give the " + size + " bytes that it says");
            }
            int after = position + (int) inflater.getBytesRead();
            in = inflated;
            from = 0;
            position = 0;
            end = (int) size;
            return after;
        } catch (DataFormatException e) {
            throw failed("is compressed, and is not data of zlib.", e);
        } finally {
            inflater.end();
        }
    }

    /** So many bytes, or null if there are fewer. The array grows with what is there. */
    private byte[] inflated(Inflater inflater, int size) throws DataFormatException {
        byte[] bytes = new byte[(int) Math.min(size, FIRST_INFLATION * (end - position))];
        int n = 0;
        while (true) {
            n += inflater.inflate(bytes, n, bytes.length - n);
            if (n == size) {
                return bytes;
            }
            if (n < bytes.length) {
                return null;
            }
            bytes = Arrays.copyOf(bytes, (int) Math.min(size, 2L * n));
        }
    }

    private static boolean isFinished(Inflater inflater) throws DataFormatException {
        return inflater.finished() || inflater.inflate(new byte[1]) == 0 && inflater.finished();
    }

    // ---- terms

    /** Notes that n further terms are to come, which are at least n bytes; returns n. */
    private int await(long n) {
        if (n > (long) end - position - awaited) {
            throw tooFew(n);
        }
        awaited += (int) n;
        return (int) n;
    }

    private Refusal tooFew(long n) {
        int left = Math.max(0, end - position - awaited);
        return bad("is cut off (elements told: " + n + ", bytes left for them: " + left + ")");
    }

    /** One of the terms that are awaited. */
    private Object element() {
        awaited--;
        return read();
    }

    private Object read() {
        int tag = u1();
        return switch (tag) {
            case Tag.SMALL_INTEGER -> TermList.number(u1());
            case Tag.INTEGER -> integer();
            case Tag.SMALL_ATOM_UTF8 -> atom(u1());
            case Tag.BINARY -> binary();
            case Tag.SMALL_TUPLE -> tuple(u1());
            case Tag.MAP -> map();
            case Tag.NIL -> PersistentList.EMPTY;
            case Tag.LIST -> list();
            case Tag.STRING -> string(u2());
            case Tag.SMALL_BIG -> integer(u1());
            // The compiler inlines a small method only, and a switch over few tags that are near.
            default -> tag == Tag.NEW_FLOAT ? real(Double.longBitsToDouble(s8())) : rare(tag);
        };
    }

    private Object rare(int tag) {
        return switch (tag) {
            case Tag.ATOM_CACHE_REF -> reference(u1());
            case Tag.LARGE_BIG -> integer(u4());
            case Tag.LARGE_TUPLE -> tuple(u4());
            case Tag.ATOM_UTF8 -> atom(u2());
            case Tag.SMALL_ATOM -> latinAtom(u1());
            case Tag.ATOM -> latinAtom(u2());
            case Tag.NEW_PID, Tag.PID -> identity(pid(tag == Tag.NEW_PID));
            case Tag.NEW_PORT, Tag.PORT, Tag.V4_PORT -> identity(port(tag));
            case Tag.NEWER_REFERENCE -> identity(reference(u2(), true));
            case Tag.NEW_REFERENCE -> identity(reference(u2(), false));
            case Tag.REFERENCE -> identity(oldReference());
            case Tag.BIT_BINARY -> bits();
            case Tag.FLOAT -> oldReal();
            case Tag.EXPORT -> {
                memory -= 24;
                yield new Export(name(), name(), smallInteger());
            }
            case Tag.NEW_FUN -> fun();
            default -> {
                position--;
                throw bad("has the tag " + tag + ", which the format does not have up to OTP 28");
            }
        };
    }

    // ---- atoms

    private Object atom(int n) {
        need(n);
        int to = position + n;
        int place;
        Object value;
        if (n > 0 && n <= Atoms.SHORT) {
            long packed = Atoms.packed(in, position, n);
            place = Atoms.place(packed);
            value = Atoms.cached(place, packed, n, MISSING);
        } else {
            place = Atoms.place(in, position, to);
            value = Atoms.cached(place, in, position, to, MISSING);
        }
        if (value == MISSING) {
            value = valueOf(utf8(position, to));
            Atoms.cache(place, in, position, to, value);
        }
        position = to;
        return codec.nilIsUndefined ? undefined(value) : value;
    }

    /** The value where the atom undefined is null. */
    private static Object undefined(Object value) {
        return value == null ? Atoms.NIL_KEYWORD : value == Atoms.UNDEFINED_KEYWORD ? null : value;
    }

    private String utf8(int start, int to) {
        String text = Text.utf8(in, start, to);
        if (text == null || text.length() > Atoms.MOST_CHARACTERS && !Atoms.isName(text)) {
            String what = text == null ? "not UTF-8" : "longer than 255 characters";
            throw bad("is an atom whose name is " + what);
        }
        return text;
    }

    private String latin(int n) {
        need(n);
        if (n > Atoms.MOST_CHARACTERS) {
            throw bad("is an atom whose name is longer than 255 characters");
        }
        position += n;
        return new String(in, position - n, n, StandardCharsets.ISO_8859_1);
    }

    private Object latinAtom(int n) {
        need(n);
        return Text.isAscii(in, position, position + n) ? atom(n) : valueOf(latin(n));
    }

    private Object valueOf(String name) {
        Boolean constant = Atoms.constant(name);
        return constant != null ? constant : name.equals("nil") ? null : keyword(Symbol.intern(name));
    }

    /** The keyword; one that the program does not have yet is counted. */
    private Keyword keyword(Symbol symbol) {
        Keyword known = Keyword.find(symbol);
        if (known != null) {
            return known;
        }
        String namespace = symbol.getNamespace();
        long length = symbol.getName().length() + (namespace == null ? 0L : namespace.length());
        long count = 1 + length / (Atoms.MOST_CHARACTERS + 2); // an atom, or as long as so many
        if (count > codec.maxAtoms - atoms) {
            String what = "is an atom that the program does not know, one more than";
            throw Refusal.limit(Refusal.MAX_ATOMS, codec.maxAtoms, what);
        }
        Keyword keyword = Keyword.intern(symbol);
        made.add(keyword);
        atoms += (int) count;
        return keyword;
    }

    private Object reference(int index) {
        if (references == null || index >= references.length) {
            throw bad("is the atom " + index + " of the cache, and the cache of this term does not have it");
        }
        return references[index];
    }

    /** The name of an atom that is not a value: of a node, a module, a function. */
    private String name() {
        String name = nameOf(u1());
        memory -= name.isEmpty() ? 0 : text(2L * name.length());
        return name;
    }

    private String nameOf(int tag) {
        switch (tag) {
            case Tag.SMALL_ATOM_UTF8, Tag.ATOM_UTF8 -> {
                int n = tag == Tag.SMALL_ATOM_UTF8 ? u1() : u2();
                need(n);
                position += n;
                return utf8(position - n, position);
            }
            case Tag.SMALL_ATOM -> {
                return latin(u1());
            }
            case Tag.ATOM -> {
                return latin(u2());
            }
            case Tag.ATOM_CACHE_REF -> {
                Object atom = reference(u1());
                return atom == null ? codec.nilIsUndefined ? "undefined" : "nil" : atom instanceof Keyword k ? k.sym.toString() : atom.toString();
            }
            default -> {
                position--;
                throw bad("has the tag " + tag + ", where an atom is due");
            }
        }
    }

    // ---- numbers and binaries

    private int smallInteger() {
        if (u1() != Tag.SMALL_INTEGER) {
            position--;
            throw bad("is not a small integer, which is due there");
        }
        return u1();
    }

    private Object real(double d) {
        if (!Double.isFinite(d)) {
            throw bad("is a float that is not finite");
        }
        memory -= BOXED;
        return d;
    }

    private Object oldReal() {
        String text = new String(raw(31), StandardCharsets.ISO_8859_1);
        int zero = text.indexOf('\0');
        String digits = (zero < 0 ? text : text.substring(0, zero)).trim();
        for (int i = 0; i < digits.length(); i++) { // Java reads more than digits, such as NaN and 1d
            if ("0123456789+-.eE".indexOf(digits.charAt(i)) < 0) {
                throw bad("is a float whose text is not a number");
            }
        }
        try {
            return real(Double.parseDouble(digits));
        } catch (NumberFormatException e) {
            throw failed("is a float whose text is not a number.", e);
        }
    }

    private Object integer() {
        memory -= BOXED;
        return (long) s4();
    }

    private Object integer(long n) {
        need(n + 1);
        int sign = u1();
        if (sign > 1 || n > LONGEST_INTEGER) {
            throw bad("is an integer of " + n + " bytes with the sign " + sign + ": too long, or of no sign");
        }
        int length = (int) n;
        if (length < 8 || length == 8 && in[position + 7] >= 0) {
            long value = 0;
            for (int i = length - 1; i >= 0; i--) {
                value = value << 8 | in[position + i] & 255;
            }
            position += length;
            memory -= BOXED;
            return sign == 1 ? -value : value;
        }
        take(24 + 40 + array(length));
        byte[] magnitude = new byte[length];
        for (int i = 0; i < length; i++) {
            magnitude[length - 1 - i] = in[position + i];
        }
        position += length;
        BigInteger value = new BigInteger(sign == 1 ? -1 : 1, magnitude);
        return value.bitLength() < Long.SIZE ? (Object) value.longValue() : BigInt.fromBigInteger(value);
    }

    private Object binary() {
        long n = u4();
        need(n);
        int start = position;
        position += (int) n;
        return binary(in, start, position);
    }

    /** The string that these bytes are, or if they are no UTF-8, a copy of them. */
    private Object binary(byte[] bytes, int start, int to) {
        if (start == to) {
            return "";
        }
        boolean isAscii = Text.isAscii(bytes, start, to);
        if (isAscii || Text.isUtf8(bytes, start, to)) {
            memory -= text(isAscii ? to - start : 2L * (to - start)); // two bytes have at most one character
            return Text.string(bytes, start, to, isAscii);
        }
        memory -= array(to - start);
        unequal++;
        return Arrays.copyOfRange(bytes, start, to);
    }

    private byte[] bytes(int tag) {
        if (tag != Tag.BINARY) {
            throw bad("is not a binary, which is due there");
        }
        return raw(u4());
    }

    private Object bits() {
        long n = u4();
        int last = u1();
        byte[] bytes = raw(n);
        if (last > 8 || n == 0 != (last == 0)) {
            throw bad("is a bit string of " + n + " bytes with " + last + " bits in the last one");
        }
        if (n == 0 || last == 8) {
            return binary(bytes, 0, bytes.length);
        }
        memory -= 24 + array(n);
        return new BitString(bytes, last);
    }

    // ---- collections

    private void enter() {
        if (++depth > codec.maxDepth) {
            throw Refusal.limit(Refusal.MAX_DEPTH, codec.maxDepth, "nests deeper than");
        }
    }

    private Object tuple(long arity) {
        if (arity == 0) {
            return PersistentVector.EMPTY;
        }
        enter();
        int n = await(arity);
        take(VECTOR + (n <= MOST_IN_TAIL ? pointers(n) : 200 + 6L * n));
        Object first = element();
        Object value = first == Atoms.RESERVED && codec.extended ? extension(n) : vector(first, n);
        depth--;
        return value;
    }

    /** The vector of this element and those that are awaited, n in all. */
    private Object vector(Object first, int n) {
        Object[] items = new Object[n];
        items[0] = first;
        for (int i = 1; i < n; i++) {
            items[i] = element();
        }
        return n <= MOST_IN_TAIL ? PersistentVector.adopt(items) : PersistentVector.create(items);
    }

    private Object string(int n) {
        need(n);
        enter();
        take(n < 2 ? 0 : n == 2 ? CELL : LIST + array(n));
        IPersistentList list = TermList.of(in, position, position + n);
        position += n;
        depth--;
        return list;
    }

    private Object list() {
        long count = u4();
        enter();
        int n = await(count + 1) - 1;
        take(n == 1 ? CELL : LIST + pointers(n));
        Object[] items = new Object[n];
        for (int i = 0; i < n; i++) {
            items[i] = element();
        }
        Object tail = element();
        depth--;
        return tail == PersistentList.EMPTY ? TermList.of(items) : n == 0 ? tail : onto(tail, items);
    }

    /** A list that does not end with the empty list: it goes on with another one, or is improper. */
    private Object onto(Object tail, Object[] items) {
        if (tail instanceof Sequential && !(tail instanceof IPersistentVector)) {
            if (tail instanceof IPersistentCollection list) {
                return inFront(list, items);
            }
            throw bad("is a list whose tail an extension has made a " + tail.getClass().getName() + " of");
        }
        memory -= 24;
        return tail instanceof ImproperList l
                ? new ImproperList((IPersistentList) inFront(l.items(), items), l.tail())
                : new ImproperList(TermList.of(items), tail);
    }

    /** The list with the items in front. */
    private Object inFront(IPersistentCollection list, Object[] items) {
        take(CELL * (items.length + (list instanceof TermList ? (long) list.count() : 0)));
        for (int i = items.length - 1; i >= 0; i--) {
            list = list.cons(items[i]);
        }
        return list;
    }

    private Object map() {
        long arity = u4();
        if (arity == 0) {
            return PersistentArrayMap.EMPTY;
        }
        enter();
        int n = await(2 * arity) / 2;
        take(n <= MOST_IN_ARRAY_MAP ? SMALL_MAP + pointers(2L * n) : hashed(n));
        Set<ByteBuffer> outer = different;
        boolean outerNested = nested;
        different = null;
        nested = false;
        Object map = n <= MOST_IN_ARRAY_MAP ? smallMap(n) : largeMap(n);
        different = outer;
        nested = outerNested;
        depth--;
        return map;
    }

    /**
     * The memory of a hash map or a set of n keys, as measured for small integers. From 17 keys on its nodes
     * are wide and nearly empty. They fill until there are some hundred, and the next level begins.
     */
    private static long hashed(long n) {
        if (n <= 16) {
            return Math.max(160, 28 * n);
        }
        long perNode = n;
        while (perNode > 512) {
            perNode >>= 5;
        }
        return 200 + n * (22 + Math.max(6, 850 / perNode));
    }

    private Object key() {
        if (++keys > Codec.MOST_KEYS_IN_KEYS) {
            throw Refusal.fixed(Refusal.KEYS_IN_KEYS, Codec.MOST_KEYS_IN_KEYS,
                    "is a key of a map within " + Codec.MOST_KEYS_IN_KEYS
                            + " other keys, and maps that nest in keys take long to compare.");
        }
        Object key = distinct();
        keys--;
        return key;
    }

    /**
     * A key of a map, or an element of a set. Clojure finds those that are equal, except for byte arrays and
     * NaN, which are compared as terms here.
     */
    private Object distinct() {
        int start = position;
        int before = unequal;
        compared++;
        Object value = element();
        compared--;
        if (!(value instanceof Keyword || value instanceof String || value instanceof Long)) {
            nested |= value instanceof IPersistentCollection || value instanceof ImproperList
                    || value instanceof Fun;
        }
        if (unequal != before) {
            take(104); // in this set
            different = different == null ? new HashSet<>() : different;
            if (!different.add(ByteBuffer.wrap(in, start, position - start))) {
                throw equalKeys();
            }
        }
        return value;
    }

    private Object[] pairs(int n) {
        Object[] items = new Object[2 * n];
        for (int i = 0; i < items.length; i += 2) {
            if (position < end - 1 && in[position] == Tag.SMALL_ATOM_UTF8) { // most keys
                awaited--;
                position += 2;
                items[i] = atom(in[position - 1] & 255);
            } else {
                items[i] = key();
            }
            items[i + 1] = element();
        }
        return items;
    }

    private Object smallMap(int n) {
        long start = position + extra;
        Object[] items = pairs(n);
        countWork(start, nested ? n : 1, 2);
        try {
            return PersistentArrayMap.createWithCheck(items);
        } catch (IllegalArgumentException e) {
            throw equalKeys();
        } catch (ClassCastException e) {
            throw notCompared(e);
        }
    }

    /** An extension may make values that Clojure cannot compare with others, such as sorted sets. */
    private static Refusal notCompared(ClassCastException e) {
        return failed("is a map or a set of which two keys cannot be compared.", e);
    }

    /**
     * Counts what it takes to compare each key of a map or a set with some others of its keys, before that is
     * done. If the map is in a key itself, each comparison of that looks up all its keys, in a map twice. So
     * it takes more than its bytes, by a factor for each level of keys in keys.
     */
    private void countWork(long start, long others, int lookups) {
        if (!nested && compared == 0) {
            return; // numbers, keywords and strings are compared at once
        }
        long size = position + extra - start;
        work += size * others;
        extra = compared == 0 ? 0 : extra + size * (others * lookups - 1);
        if (work + extra > FREE_WORK + MOST_WORK * (end - from)) {
            throw Refusal.fixed(Refusal.KEYS_IN_KEYS, MOST_WORK, "is a map or a set whose keys contain so many "
                    + "other keys that it takes long to compare them. Use vectors or strings as keys.");
        }
    }

    private static Refusal equalKeys() {
        return bad("is a map or a set with two keys that are equal here, as the tuple {1} and the list [1] are");
    }

    /**
     * How many keys have the same hash at most, if it matters. Keys that were chosen to have the same are
     * refused: n of them would take n squared steps.
     */
    private int equalHashes(Object[] items, int step) {
        if (!nested && compared == 0 && items.length / step <= Codec.MOST_EQUAL_HASHES) {
            return 1;
        }
        int[] hashes = new int[items.length / step];
        for (int i = 0; i < hashes.length; i++) {
            hashes[i] = Util.hasheq(items[step * i]);
        }
        Arrays.sort(hashes);
        int most = 1;
        for (int i = 1; i < hashes.length; i++) { // most is the length of the longest run of hashes before i
            if (hashes[i] == hashes[i - Math.min(most, i)]) {
                most++;
            }
        }
        if (most > Codec.MOST_EQUAL_HASHES) {
            String what = "is a map or a set in which more than " + Codec.MOST_EQUAL_HASHES;
            throw Refusal.fixed(Refusal.EQUAL_HASHES, Codec.MOST_EQUAL_HASHES,
                    what + " keys have the same hash, as if they were chosen to be slow.");
        }
        return most;
    }

    private Object largeMap(int n) {
        long start = position + extra;
        Object[] items = pairs(n);
        countWork(start, equalHashes(items, 2), 2);
        IPersistentMap map = hashMap(items);
        if (map.count() != n) {
            throw equalKeys();
        }
        return map;
    }

    private static IPersistentMap hashMap(Object[] items) {
        try {
            ITransientMap map = (ITransientMap) PersistentHashMap.EMPTY.asTransient();
            for (int i = 0; i < items.length; i += 2) {
                map = map.assoc(items[i], items[i + 1]);
            }
            return map.persistent();
        } catch (ClassCastException e) {
            throw notCompared(e);
        }
    }

    // ---- pids, ports, references, funs

    private Object identity(Object identity) {
        if (codec.identities == null) {
            return identity;
        }
        try {
            return codec.identities.read(identity);
        } catch (Exception | AssertionError e) {
            throw failed("is an identity for which the hook throws " + e.getClass().getName() + ".", e);
        }
    }

    private Pid pid(boolean isNew) {
        memory -= 40;
        String node = name();
        return new Pid(node, u4(), u4(), isNew ? u4() : u1());
    }

    private Port port(int tag) {
        memory -= 32;
        String node = name();
        return new Port(node, tag == Tag.V4_PORT ? s8() : u4(), tag == Tag.PORT ? u1() : u4());
    }

    private Reference reference(int words, boolean isNew) {
        if (words < 1 || words > Reference.MOST_WORDS) {
            throw bad("is a reference with " + words + " words, where one to five are allowed");
        }
        memory -= 32 + pointers(words);
        String node = name();
        long creation = isNew ? u4() : u1();
        int[] ids = new int[words];
        for (int i = 0; i < words; i++) {
            ids[i] = s4();
        }
        return new Reference(node, creation, ids);
    }

    private Reference oldReference() {
        memory -= 32 + pointers(1);
        String node = name();
        int id = s4();
        return new Reference(node, u1(), id);
    }

    private Fun fun() {
        enter();
        int start = position;
        long size = u4();
        int arity = u1();
        byte[] uniq = raw(16);
        long index = u4();
        int n = await(u4());
        take(64 + 24 + 32 + 16 + pointers(n)); // with its uniq and the list
        String module = name();
        long oldIndex = number(read());
        long oldUniq = number(read());
        Object pid = read();
        Object[] free = new Object[n];
        for (int i = 0; i < n; i++) {
            free[i] = element();
        }
        if (position - start != size) {
            throw bad("is a fun of " + size + " bytes, and its parts have " + (position - start));
        }
        depth--;
        List<Object> values = Collections.unmodifiableList(Arrays.asList(free));
        return new Fun(arity, uniq, index, module, oldIndex, oldUniq, pid, values);
    }

    private static long number(Object o) {
        if (!(o instanceof Long n)) {
            throw bad("is not an integer, which is due there");
        }
        return n;
    }

    // ---- extensions

    private static Refusal misfit(Keyword tag) {
        return bad("is not what the extension " + tag + " takes").with(Refusal.TAG, tag);
    }

    /** What a tuple of n elements stands for, whose first one is the reserved atom. */
    private Object extension(int n) {
        Object tag = n > 1 ? element() : null;
        if (!(tag instanceof Keyword k)) {
            throw bad("is a tuple of the reserved atom " + Atoms.RESERVED.sym + ", and has no tag behind it");
        }
        if (k.getNamespace() != null) {
            return registered(k, n);
        }
        return switch (n - 2) {
            case 1 -> k.getName().equals("vector") ? vector(n) : builtin(k);
            case 2 -> k.getName().equals("vector") ? vector(n) : builtinPair(k);
            default -> {
                if (!k.getName().equals("vector")) {
                    throw unknown(k);
                }
                yield vector(n);
            }
        };
    }

    private static Refusal unknown(Keyword tag) {
        return Refusal.refusal("unknown-extension", "is an extension with the tag " + tag
                + ", which this codec does not have. Give it the extension that the other side writes with.")
                .with(Refusal.TAG, tag);
    }

    private Object registered(Keyword tag, int n) {
        Extension extension = codec.extensionOf(tag);
        if (extension == null) {
            throw unknown(tag);
        }
        if (n != 3) {
            throw misfit(tag);
        }
        Object payload = element();
        try {
            return extension.read().invoke(payload);
        } catch (Exception | AssertionError e) { // such as the one of a precondition
            String what = "is not read by its extension " + tag + ": :read throws ";
            throw failed(what + e.getClass().getName() + ".", e).with(Refusal.TAG, tag);
        }
    }

    /** The user's own vector that begins with the reserved keyword; its further elements are awaited. */
    private Object vector(int n) {
        return vector(Atoms.RESERVED, n - 1);
    }

    private byte[] awaitedBytes() {
        awaited--;
        byte[] bytes = bytes(u1());
        memory -= array(bytes.length);
        return bytes;
    }

    private <T> T part(Class<T> type, Keyword tag) {
        return checked(element(), type, tag);
    }

    private static <T> T checked(Object part, Class<T> type, Keyword tag) {
        if (!type.isInstance(part)) {
            throw misfit(tag);
        }
        return type.cast(part);
    }

    private Object builtin(Keyword tag) {
        return switch (tag.getName()) {
            case "set" -> set(tag);
            case "bytes" -> {
                unequal++;
                yield awaitedBytes();
            }
            case "utf16" -> utf16(tag);
            case "char" -> {
                long c = part(Long.class, tag);
                if (c < 0 || c > Character.MAX_VALUE) {
                    throw misfit(tag);
                }
                yield (char) c;
            }
            case "uuid" -> uuid(tag);
            case "date" -> new Date(part(Long.class, tag));
            case "double" -> notFinite(tag);
            default -> throw unknown(tag);
        };
    }

    private Object builtinPair(Keyword tag) {
        return switch (tag.getName()) {
            case "keyword" -> {
                String namespace = namespace(tag);
                yield keyword(Symbol.intern(namespace, part(String.class, tag)));
            }
            case "symbol" -> {
                String namespace = namespace(tag);
                memory -= 40;
                yield Symbol.intern(namespace, part(String.class, tag));
            }
            case "ratio" -> ratio(tag);
            case "decimal" -> decimal(tag);
            case "instant" -> instant(tag);
            default -> throw unknown(tag);
        };
    }

    private String namespace(Keyword tag) {
        Object namespace = element();
        return namespace == null ? null : checked(namespace, String.class, tag);
    }

    private Object set(Keyword tag) {
        Set<ByteBuffer> outer = different;
        boolean outerNested = nested;
        different = null;
        nested = false;
        long start = position + extra;
        Object[] elements = elements(tag);
        countWork(start, equalHashes(elements, 1), 1);
        different = outer;
        nested = outerNested;
        IPersistentSet set = hashSet(elements);
        if (set.count() != elements.length) {
            throw equalKeys();
        }
        return set;
    }

    private static IPersistentSet hashSet(Object[] elements) {
        try {
            ITransientSet set = (ITransientSet) PersistentHashSet.EMPTY.asTransient();
            for (Object element : elements) {
                set = (ITransientSet) set.conj(element);
            }
            return (IPersistentSet) set.persistent();
        } catch (ClassCastException e) {
            throw notCompared(e);
        }
    }

    /** The elements of a set, which are a list that is not made. */
    private Object[] elements(Keyword tag) {
        awaited--;
        int tagOfList = u1();
        if (tagOfList != Tag.NIL && tagOfList != Tag.LIST && tagOfList != Tag.STRING) {
            throw misfit(tag);
        }
        if (tagOfList == Tag.NIL) {
            take(64);
            return new Object[0];
        }
        enter();
        Object[] elements = tagOfList == Tag.LIST ? listed(tag) : numbers(u2());
        depth--;
        return elements;
    }

    private Object[] listed(Keyword tag) {
        long count = u4();
        Object[] elements = new Object[await(count + 1) - 1];
        take(hashed(elements.length));
        for (int i = 0; i < elements.length; i++) {
            elements[i] = distinct();
        }
        awaited--;
        if (u1() != Tag.NIL) {
            throw misfit(tag);
        }
        return elements;
    }

    private Object[] numbers(int n) {
        need(n);
        take(hashed(n));
        Object[] elements = new Object[n];
        for (int i = 0; i < n; i++) {
            elements[i] = TermList.number(u1());
        }
        return elements;
    }

    private Object utf16(Keyword tag) {
        byte[] bytes = awaitedBytes();
        if (bytes.length % 2 != 0) {
            throw misfit(tag);
        }
        memory -= text(bytes.length);
        char[] units = new char[bytes.length / 2];
        for (int i = 0; i < units.length; i++) {
            units[i] = (char) ((bytes[2 * i] & 255) << 8 | bytes[2 * i + 1] & 255);
        }
        return new String(units);
    }

    private Object uuid(Keyword tag) {
        awaited--;
        int tagOfPart = u1();
        if (tagOfPart != Tag.BINARY || u4() != 16) {
            throw misfit(tag);
        }
        return new UUID(s8(), s8());
    }

    private Object notFinite(Keyword tag) {
        return switch (part(Keyword.class, tag).getName()) {
            case "nan" -> {
                unequal++;
                yield Double.NaN;
            }
            case "infinity" -> Double.POSITIVE_INFINITY;
            case "-infinity" -> Double.NEGATIVE_INFINITY;
            default -> throw misfit(tag);
        };
    }

    private BigInteger integerPart(Keyword tag) {
        return switch (element()) {
            case Long n -> BigInteger.valueOf(n);
            case BigInt n -> n.toBigInteger();
            case null, default -> throw misfit(tag);
        };
    }

    private Object ratio(Keyword tag) {
        BigInteger numerator = integerPart(tag);
        BigInteger denominator = integerPart(tag);
        if (!Codec.isReduced(numerator, denominator)) {
            throw misfit(tag);
        }
        return new Ratio(numerator, denominator);
    }

    private Object decimal(Keyword tag) {
        BigInteger unscaled = integerPart(tag);
        Codec.checkLength(unscaled, Codec.LONGEST_DECIMAL);
        long scale = part(Long.class, tag);
        if (scale != (int) scale) {
            throw misfit(tag);
        }
        return new BigDecimal(unscaled, (int) scale);
    }

    private Object instant(Keyword tag) {
        long seconds = part(Long.class, tag);
        long nanos = part(Long.class, tag);
        if (nanos < 0 || nanos >= 1_000_000_000) {
            throw misfit(tag);
        }
        try {
            return Instant.ofEpochSecond(seconds, nanos);
        } catch (DateTimeException e) {
            throw misfit(tag);
        }
    }
}
