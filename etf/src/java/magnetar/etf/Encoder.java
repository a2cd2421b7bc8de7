package magnetar.etf;

import clojure.lang.AFn;
import clojure.lang.BigInt;
import clojure.lang.Counted;
import clojure.lang.ExceptionInfo;
import clojure.lang.IKVReduce;
import clojure.lang.IPersistentMap;
import clojure.lang.IPersistentSet;
import clojure.lang.IPersistentVector;
import clojure.lang.IRecord;
import clojure.lang.ISeq;
import clojure.lang.Keyword;
import clojure.lang.PersistentArrayMap;
import clojure.lang.PersistentHashMap;
import clojure.lang.PersistentHashSet;
import clojure.lang.PersistentTreeMap;
import clojure.lang.PersistentVector;
import clojure.lang.RT;
import clojure.lang.Ratio;
import clojure.lang.Sequential;
import clojure.lang.Sorted;
import clojure.lang.Symbol;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import java.util.Date;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

/**
 * Writes values as terms, one behind the other, into a buffer that grows as needed. The buffer is the
 * encoder's own, which is used again, or an array that the caller gives: see {@link #begin}.
 *
 * <p>One thread at a time may use an encoder. Another thread may go on with it after a handover that makes
 * writes visible, such as a lock or a queue. All encoders share their codec. A value must not change while
 * it is encoded.
 *
 * <p>It writes one value at a time. What a lazy seq, an extension or a hook encodes meanwhile needs an
 * encoder of its own, and gets an IllegalStateException from this one.
 *
 * <p>An error leaves the encoder as it was before the value. The terms in front of it stay.
 */
public final class Encoder {

    private static final int FIRST_SIZE = 256;
    private static final int LARGEST_KEPT = 65536;
    private static final int LONGEST_STRING_TERM = 65535;
    private static final int LARGEST_ARRAY = Integer.MAX_VALUE - 8;

    /** What is made sure of before a term of fixed size is written has at most so many bytes more. */
    private static final int SLACK = 32;

    private final Codec codec;
    private final boolean nilIsUndefined;
    private byte[] buffer = new byte[FIRST_SIZE];
    private boolean isOwn = true;
    private boolean writing;
    private int position;
    private int start;
    private int depth;
    private int keys;
    private int doubtful; // values so far whose term others may have that are not equal to them
    private boolean inDoubt; // is such a value in a key of the map that is being written?
    private boolean checks = true;

    /** An encoder for one connection, or for one thread. */
    public Encoder(Codec codec) {
        this.codec = codec;
        this.nilIsUndefined = codec.nilIsUndefined;
    }

    // ---- for its users

    /** The bytes of the value's term, as a new array. Terms in the buffer are dropped. */
    public byte[] encode(Object value) {
        clear(0);
        try {
            append(value);
            return Arrays.copyOf(buffer, position);
        } finally {
            position = 0;
            if (buffer.length > LARGEST_KEPT) {
                clear(0);
            }
        }
    }

    /**
     * Begins again in the encoder's own buffer, with room for as many bytes in front, which the caller
     * fills in.
     */
    public void clear(int room) {
        checkIdle();
        Range.check("The room", room, LARGEST_ARRAY);
        // A large value does not keep its memory, and an array of the caller is left to the caller.
        if (!isOwn || room > buffer.length || buffer.length > LARGEST_KEPT) {
            buffer = new byte[Math.max(room, FIRST_SIZE)];
            isOwn = true;
        }
        start = room;
        position = room;
    }

    /**
     * Begins in an array of the caller. The next term is written from the position on, and the bytes in
     * front of it stay. If the array is too short, the encoder goes on in a longer copy of it, so the
     * caller takes {@link #buffer} and {@link #length} when all terms are written.
     */
    public void begin(byte[] array, int at) {
        checkIdle();
        Range.check("The position", at, array.length);
        buffer = array;
        isOwn = false;
        start = at;
        position = at;
    }

    private void checkIdle() {
        if (writing) {
            throw new IllegalStateException("This encoder is writing a value, and writes one at a time. "
                    + "Give what encodes another one meanwhile an encoder of its own.");
        }
    }

    /** Writes the value's term behind what is there, with the byte of the version in front. */
    public void append(Object value) {
        append(value, true);
    }

    /** As {@link #append}, without the byte of the version, as behind a header of Erlang's distribution. */
    public void appendBare(Object value) {
        append(value, false);
    }

    private void append(Object value, boolean withVersion) {
        checkIdle();
        int before = position;
        boolean done = false;
        try {
            writing = true;
            start = before;
            depth = 0;
            keys = 0;
            inDoubt = false;
            if (withVersion) {
                byte1(Tag.VERSION);
            }
            write(value);
            if (position - start > codec.maxSize) {
                throw tooLong();
            }
            done = true;
        } catch (Refusal refusal) {
            throw refusal.onEncode();
        } catch (StackOverflowError e) {
            throw tooDeepForStack();
        } finally {
            writing = false;
            if (!done) {
                position = before;
            }
        }
    }

    /** The buffer, of which the first {@link #length} bytes count. The next term may take a longer one. */
    public byte[] buffer() {
        return buffer;
    }

    /** Where the last term ends, as an index of the buffer. */
    public int length() {
        return position;
    }

    // ---- refusals

    private Refusal tooLong() {
        return Refusal.limit(Refusal.MAX_SIZE, codec.maxSize, "has a term with more bytes than");
    }

    private static ExceptionInfo tooDeepForStack() {
        return Refusal.refusal("term-limit", "nests deeper than the stack of this thread allows. "
                        + "Give the codec a smaller :max-depth.")
                .with(Refusal.LIMIT, Refusal.MAX_DEPTH).onEncode();
    }

    private static Refusal noTerm(Object value, String why) {
        return Refusal.refusal("no-term", why).with(Refusal.VALUE, value);
    }

    private void needsExtensions(Object value, String what) {
        if (!codec.extended) {
            throw noTerm(value, "is " + what + ", which Erlang has no term for. "
                    + "Convert it, or leave out `:extensions false` if the other side reads extensions.");
        }
    }

    // ---- bytes

    private void need(long n) {
        if (n > buffer.length - position) {
            grow(n);
        }
    }

    private void grow(long n) {
        long wanted = position + n;
        if (wanted - start > (long) codec.maxSize + SLACK) { // append checks the size of the whole term
            throw tooLong();
        }
        if (wanted > LARGEST_ARRAY) {
            throw Refusal.fixed(Refusal.MAX_SIZE, LARGEST_ARRAY,
                    "does not fit into an array behind the terms that are there. Take these out first.");
        }
        long most = Math.min((long) start + codec.maxSize + SLACK, LARGEST_ARRAY);
        buffer = Arrays.copyOf(buffer, (int) Math.max(wanted, Math.min(2L * buffer.length, most)));
    }

    private void byte1(int x) {
        need(1);
        buffer[position++] = (byte) x;
    }

    private void put1(int x) {
        buffer[position++] = (byte) x;
    }

    private void put2(int x) {
        put1(x >> 8);
        put1(x);
    }

    private void put4(int at, int x) {
        buffer[at] = (byte) (x >> 24);
        buffer[at + 1] = (byte) (x >> 16);
        buffer[at + 2] = (byte) (x >> 8);
        buffer[at + 3] = (byte) x;
    }

    private void put4(long x) {
        put4(position, (int) x);
        position += 4;
    }

    private void raw(byte[] bytes) {
        need(bytes.length);
        System.arraycopy(bytes, 0, buffer, position, bytes.length);
        position += bytes.length;
    }

    // ---- values

    private void write(Object o) {
        if (o == null) {
            raw(nilIsUndefined ? Atoms.UNDEFINED : Atoms.NIL);
        } else if (o instanceof Keyword k) {
            keyword(k);
        } else if (o instanceof String s) {
            string(s);
        } else if (o instanceof Long n) {
            integer(n);
        } else if (o instanceof Boolean b) {
            raw(b ? Atoms.TRUE : Atoms.FALSE);
        } else if (o instanceof Double d) {
            real(o, d);
        } else if (o instanceof PersistentArrayMap m) {
            map(m, m);
        } else if (o instanceof PersistentVector v) {
            vector(v);
        } else if (o instanceof PersistentHashMap m) {
            map(m, m);
        } else {
            other(o);
        }
    }

    private void other(Object o) {
        Object identity = codec.identities == null ? null : codec.identities.write(o);
        if (identity != null) {
            identity(o, identity);
            return;
        }
        Extension extension = codec.hasExtensions() ? codec.extensionOf(o.getClass()) : null;
        if (extension != null) {
            extension(extension, o);
        } else if (!collection(o) && !number(o) && !opaque(o) && !extended(o) && !foreign(o)) {
            throw noTerm(o, "is a " + o.getClass().getName() + ", which has no term. "
                    + "Encode other data in its place, or give the codec an extension for the class.");
        }
    }

    private boolean collection(Object o) {
        switch (o) {
            case IRecord r -> {
                return false;
            }
            case IPersistentVector v -> vector(v);
            case IPersistentMap m -> otherMap(m);
            case IPersistentSet s -> {
                needsExtensions(s, "a set");
                set(s);
            }
            case Sequential s -> list(RT.seq(s), true);
            default -> {
                return false;
            }
        }
        return true;
    }

    private boolean number(Object o) {
        switch (o) {
            case Integer n -> integer(n);
            case Short n -> integer(n);
            case Byte n -> integer(n);
            case BigInt n -> integer(n.toBigInteger());
            case BigInteger n -> integer(n);
            case Float x -> real(o, x);
            default -> {
                return false;
            }
        }
        return true;
    }

    /** A collection of Java travels as one of Clojure. */
    private boolean foreign(Object o) {
        switch (o) {
            case IRecord r -> {
                return false;
            }
            case Map<?, ?> m -> otherMap(distinct(PersistentHashMap.create(m), m, m.size()));
            case Set<?> s -> {
                needsExtensions(s, "a set");
                set(distinct(PersistentHashSet.create(RT.seq(s)), s, s.size()));
            }
            case List<?> l -> list(RT.seq(l), true);
            default -> {
                return false;
            }
        }
        return true;
    }

    /** A collection of Java may have keys that are different there, and equal here and as terms. */
    private static <T extends Counted> T distinct(T copy, Object of, int size) {
        if (copy.count() != size) {
            throw noTerm(of, "is a " + of.getClass().getName() + " of which two keys are equal in Clojure, "
                    + "such as an Integer and a Long. Keep one of them.");
        }
        return copy;
    }

    // ---- atoms, numbers, binaries

    private static byte[] atomBesideUndefined(Keyword k) {
        return k == Atoms.NIL_KEYWORD ? Atoms.NIL : k == Atoms.UNDEFINED_KEYWORD ? null : Atoms.of(k);
    }

    private void keyword(Keyword k) {
        byte[] atom = nilIsUndefined ? atomBesideUndefined(k) : Atoms.of(k);
        if (atom != null) {
            raw(atom);
            return;
        }
        needsExtensions(k, "a keyword whose name cannot be an atom of its own");
        name(Builtin.KEYWORD, k.getNamespace(), k.getName());
    }

    private void name(byte[] head, String namespace, String name) {
        enter();
        raw(head);
        write(namespace);
        string(name);
        leave();
    }

    /** An atom that stands for a name of Erlang, such as a node's. */
    private void atom(Object o, String name) {
        if (!Atoms.isName(name)) {
            throw noTerm(o, "has a name that is not an atom. An atom has at most 255 characters, "
                    + "and no half of a surrogate pair.");
        }
        raw(Atoms.bytes(name));
    }

    private void integer(long n) {
        need(11);
        if (n >= 0 && n < 256) {
            put1(Tag.SMALL_INTEGER);
            put1((int) n);
        } else if (n == (int) n) {
            put1(Tag.INTEGER);
            put4(n);
        } else {
            boolean negative = n < 0;
            int length = position + 1;
            put1(Tag.SMALL_BIG);
            position = length + 1;
            put1(negative ? 1 : 0);
            for (long rest = negative ? -n : n; rest != 0; rest >>>= 8) { // unsigned, for the least long
                put1((int) rest);
            }
            buffer[length] = (byte) (position - length - 2);
        }
    }

    private void integer(BigInteger n) {
        if (n.bitLength() < Long.SIZE) {
            integer(n.longValue());
            return;
        }
        byte[] magnitude = n.abs().toByteArray();
        int from = magnitude[0] == 0 ? 1 : 0;
        int length = magnitude.length - from;
        need(length + 6L);
        if (length < 256) {
            put1(Tag.SMALL_BIG);
            put1(length);
        } else {
            put1(Tag.LARGE_BIG);
            put4(length);
        }
        put1(n.signum() < 0 ? 1 : 0);
        for (int i = magnitude.length - 1; i >= from; i--) {
            put1(magnitude[i]);
        }
    }

    private void real(Object o, double d) {
        if (!Double.isFinite(d)) {
            needsExtensions(o, "a number that is not finite");
            doubtful++; // NaN is not equal to itself
            enter();
            raw(Builtin.DOUBLE);
            raw(Double.isNaN(d) ? Builtin.NAN : d > 0 ? Builtin.INFINITY : Builtin.MINUS_INFINITY);
            leave();
            return;
        }
        need(9);
        put1(Tag.NEW_FLOAT);
        long bits = Double.doubleToRawLongBits(d);
        put4(bits >> 32);
        put4(bits);
    }

    private void string(String s) {
        int n = s.length();
        need(5L + n);
        int at = position;
        int to = at + 5;
        byte[] into = buffer;
        for (int i = 0; i < n; i++) {
            char c = s.charAt(i);
            if (c >= 0x80) {
                wideString(s);
                return;
            }
            into[to++] = (byte) c;
        }
        into[at] = (byte) Tag.BINARY;
        put4(at + 1, n);
        position = to;
    }

    private void wideString(String s) {
        long n = Text.utf8Length(s);
        if (n < 0) {
            needsExtensions(s, "a string with half of a surrogate pair");
            enter();
            raw(Builtin.UTF16);
            binary(units(s));
            leave();
            return;
        }
        need(5 + n); // refused before the array is made
        binary(s.getBytes(StandardCharsets.UTF_8));
    }

    /** The characters of the string, two bytes each. Java's own encoder replaces half of a pair. */
    private static byte[] units(String s) {
        byte[] units = new byte[2 * s.length()];
        for (int i = 0; i < s.length(); i++) {
            units[2 * i] = (byte) (s.charAt(i) >> 8);
            units[2 * i + 1] = (byte) s.charAt(i);
        }
        return units;
    }

    private void binary(byte[] bytes) {
        need(5L + bytes.length);
        put1(Tag.BINARY);
        put4(bytes.length);
        raw(bytes);
    }

    /** Bytes that are not UTF-8 come back as bytes; others would come back as a string. */
    private void bytes(byte[] bytes) {
        doubtful++;
        if (!codec.extended || !Text.isUtf8(bytes, 0, bytes.length)) {
            binary(bytes);
            return;
        }
        enter();
        raw(Builtin.BYTES);
        binary(bytes);
        leave();
    }

    // ---- collections

    private void enter() {
        if (++depth > codec.maxDepth) {
            throw Refusal.limit(Refusal.MAX_DEPTH, codec.maxDepth, "nests deeper than");
        }
    }

    private void leave() {
        depth--;
    }

    private void tuple(int n) {
        need(5);
        if (n < 256) {
            put1(Tag.SMALL_TUPLE);
            put1(n);
        } else {
            put1(Tag.LARGE_TUPLE);
            put4(n);
        }
    }

    private void vector(IPersistentVector v) {
        int n = v.count();
        int i = 0;
        enter();
        if (n > 0 && codec.extended && v.nth(0) == Atoms.RESERVED) { // else it would be read as an extension
            tuple(n + 1);
            raw(Atoms.RESERVED_BYTES);
            raw(Builtin.VECTOR);
            i = 1;
        } else {
            tuple(n);
        }
        try {
            for (; i < n; i++) {
                write(v.nth(i));
            }
        } catch (Refusal refusal) {
            throw refusal.in((long) i);
        }
        leave();
    }

    private static final class Pair extends AFn {

        @Override
        public Object invoke(Object encoder, Object key, Object value) {
            ((Encoder) encoder).pair(key, value);
            return encoder;
        }
    }

    private static final Pair PAIR = new Pair();

    private void pair(Object key, Object value) {
        if (key instanceof Keyword k) {
            keyword(k);
        } else {
            key(key);
        }
        try {
            write(value);
        } catch (Refusal refusal) {
            throw refusal.in(key);
        }
    }

    private void key(Object key) {
        if (++keys > Codec.MOST_KEYS_IN_KEYS) {
            throw Refusal.fixed(Refusal.KEYS_IN_KEYS, Codec.MOST_KEYS_IN_KEYS,
                    "is a key of a map within " + Codec.MOST_KEYS_IN_KEYS
                            + " other keys. Maps that nest in keys take long to compare: use a vector.");
        }
        int before = doubtful;
        try {
            write(key);
        } catch (Refusal refusal) {
            throw refusal.in(key);
        }
        keys--;
        inDoubt |= doubtful != before;
    }

    /** Has it an order of its own? That may tell keys apart that are equal, such as 1 and 1N. */
    private static boolean isOrdered(Object o) {
        return o instanceof Sorted s && s.comparator() != PersistentTreeMap.EMPTY.comparator();
    }

    /** Refuses a map or a set two of whose keys are different here and equal as terms. */
    private void checkKeys(Object of, ISeq keys) {
        if (!checks || keys == null || keys.next() == null) {
            return;
        }
        Encoder alone = new Encoder(codec);
        alone.checks = false; // what is in the keys has been checked
        Set<ByteBuffer> terms = new HashSet<>();
        for (ISeq s = keys; s != null; s = s.next()) {
            if (!terms.add(ByteBuffer.wrap(alone.encode(s.first())))) {
                throw noTerm(of, "is a " + of.getClass().getName() + " of which two keys or elements have "
                        + "the same term, such as two byte arrays with the same bytes. Keep one of them.");
            }
        }
    }

    private void map(IPersistentMap m, IKVReduce pairs) {
        boolean outer = inDoubt;
        inDoubt = false;
        enter();
        need(5);
        put1(Tag.MAP);
        put4(m.count());
        pairs.kvreduce(PAIR, this);
        leave();
        if (inDoubt) {
            checkKeys(m, RT.keys(m));
        }
        inDoubt = outer;
    }

    /** A map of another class: its pairs are counted, so that no count of its own makes the term wrong. */
    private void otherMap(IPersistentMap m) {
        boolean outer = inDoubt;
        inDoubt = isOrdered(m);
        enter();
        need(5);
        put1(Tag.MAP);
        int at = position;
        position += 4;
        int n = 0;
        for (ISeq s = RT.seq(m); s != null; s = s.next()) {
            Map.Entry<?, ?> entry = (Map.Entry<?, ?>) s.first();
            pair(entry.getKey(), entry.getValue());
            n++;
        }
        put4(at, n);
        leave();
        if (inDoubt) {
            checkKeys(m, RT.keys(m));
        }
        inDoubt = outer;
    }

    /** A list. Its end is found on the way: a seq may be lazy, and have no end. */
    private void list(ISeq s, boolean indexed) {
        if (s == null) {
            byte1(Tag.NIL);
            return;
        }
        enter();
        need(5);
        int at = position;
        position += 3;
        int n = 0;
        boolean small = true;
        for (; s != null; s = s.next()) {
            Object item = s.first();
            if (small && !(item instanceof Number)) {
                small = spread(at, n);
            }
            int before = position;
            try {
                write(item);
            } catch (Refusal refusal) {
                throw refusal.in(indexed ? (Object) (long) n : item);
            }
            if (small) {
                small = buffer[before] == Tag.SMALL_INTEGER && n < LONGEST_STRING_TERM
                        ? shorten(before) : spread(at, n);
            }
            n++;
        }
        endList(at, n, small);
        leave();
    }

    private void endList(int at, int n, boolean small) {
        if (small) { // the short form that Erlang gives a list of small integers
            buffer[at] = (byte) Tag.STRING;
            buffer[at + 1] = (byte) (n >> 8);
            buffer[at + 2] = (byte) n;
        } else {
            buffer[at] = (byte) Tag.LIST;
            put4(at + 1, n);
            byte1(Tag.NIL);
        }
    }

    /** Leaves only the byte of the small integer at this place. */
    private boolean shorten(int at) {
        buffer[at] = buffer[at + 1];
        position = at + 1;
        return true;
    }

    /** Makes terms of the n bytes of a list of small integers, and moves what is behind them. */
    private boolean spread(int at, int n) {
        need(n + 2L);
        int from = at + 3 + n;
        System.arraycopy(buffer, from, buffer, from + n + 2, position - from);
        position += n + 2;
        for (int i = n - 1; i >= 0; i--) { // each is written behind where it is read
            buffer[at + 6 + 2 * i] = buffer[at + 3 + i];
            buffer[at + 5 + 2 * i] = (byte) Tag.SMALL_INTEGER;
        }
        return false;
    }

    private void set(Object s) {
        enter();
        raw(Builtin.SET);
        int before = doubtful;
        list(RT.seq(s), false);
        leave();
        if (doubtful != before || isOrdered(s)) {
            checkKeys(s, RT.seq(s));
        }
    }

    // ---- extensions

    private boolean extended(Object o) {
        if (o instanceof byte[] b) {
            bytes(b);
            return true;
        }
        byte[] head = Builtin.headOf(o);
        if (head == null) {
            return false;
        }
        needsExtensions(o, "a " + o.getClass().getName());
        enter();
        raw(head);
        switch (o) {
            case Symbol s -> {
                write(s.getNamespace());
                string(s.getName());
            }
            case Character c -> integer(c);
            case Ratio r -> {
                if (!Codec.isReduced(r.numerator, r.denominator)) {
                    throw noTerm(r, "is a ratio that is not reduced, and equals no other number. Make it "
                            + "with `/`.");
                }
                integer(r.numerator);
                integer(r.denominator);
            }
            case BigDecimal d -> {
                Codec.checkLength(d.unscaledValue(), Codec.LONGEST_DECIMAL);
                integer(d.unscaledValue());
                integer(d.scale());
            }
            case UUID u -> uuid(u);
            case Instant i -> {
                integer(i.getEpochSecond());
                integer(i.getNano());
            }
            default -> integer(((Date) o).getTime());
        }
        leave();
        return true;
    }

    private void uuid(UUID u) {
        need(21);
        put1(Tag.BINARY);
        put4(16);
        put4(u.getMostSignificantBits() >> 32);
        put4(u.getMostSignificantBits());
        put4(u.getLeastSignificantBits() >> 32);
        put4(u.getLeastSignificantBits());
    }

    private void extension(Extension extension, Object o) {
        doubtful++;
        Object payload;
        try {
            payload = extension.write().invoke(o);
        } catch (Exception | AssertionError e) {
            String what = "is not written by its extension " + extension.tag() + ": :write throws ";
            throw Refusal.refusal("no-term", what + e.getClass().getName() + ".", e)
                    .with(Refusal.VALUE, o)
                    .with(Refusal.TAG, extension.tag());
        }
        enter();
        need(2);
        put1(Tag.SMALL_TUPLE);
        put1(3);
        raw(Atoms.RESERVED_BYTES);
        keyword(extension.tag());
        try {
            write(payload);
        } catch (Refusal refusal) {
            throw refusal.in(extension.tag());
        }
        leave();
    }

    // ---- terms of Erlang that are opaque here

    private boolean opaque(Object o) {
        switch (o) {
            case BitString b -> bitString(b);
            case ImproperList l -> improper(l);
            case Export e -> {
                byte1(Tag.EXPORT);
                atom(e, e.module());
                atom(e, e.function());
                integer(e.arity());
            }
            case Fun f -> fun(f);
            default -> {
                return identityTerm(o);
            }
        }
        return true;
    }

    private void identity(Object o, Object identity) {
        doubtful++;
        if (identity instanceof ImproperList l) {
            improper(l);
        } else if (!identityTerm(identity)) {
            throw noTerm(o, "is an identity for which the hook gave a " + identity.getClass().getName()
                    + ". It gives a Pid, a Port, a Reference or an ImproperList of magnetar.etf.");
        }
    }

    private boolean identityTerm(Object o) {
        switch (o) {
            case Pid p -> {
                byte1(Tag.NEW_PID);
                atom(p, p.node());
                need(12);
                put4(p.id());
                put4(p.serial());
                put4(p.creation());
            }
            case Port p -> port(p);
            case Reference r -> {
                need(3);
                put1(Tag.NEWER_REFERENCE);
                put2(r.count());
                atom(r, r.node());
                need(24);
                put4(r.creation());
                for (int i = 0; i < r.count(); i++) {
                    put4(r.word(i));
                }
            }
            default -> {
                return false;
            }
        }
        return true;
    }

    private void port(Port p) {
        boolean isShort = p.id() >= 0 && p.id() < 1 << 28; // as OTP does: older nodes read these only
        byte1(isShort ? Tag.NEW_PORT : Tag.V4_PORT);
        atom(p, p.node());
        need(12);
        if (!isShort) {
            put4(p.id() >> 32);
        }
        put4(p.id());
        put4(p.creation());
    }

    private void bitString(BitString b) {
        byte[] bytes = b.shared();
        need(6);
        put1(Tag.BIT_BINARY);
        put4(bytes.length);
        put1(b.bits());
        raw(bytes);
    }

    private void improper(ImproperList l) {
        enter();
        need(5);
        put1(Tag.LIST);
        put4(l.items().count());
        int i = 0;
        try {
            for (ISeq s = l.items().seq(); s != null; s = s.next()) {
                write(s.first());
                i++;
            }
            write(l.tail());
        } catch (Refusal refusal) {
            throw refusal.in((long) i);
        }
        leave();
    }

    private void fun(Fun f) {
        enter();
        need(30);
        put1(Tag.NEW_FUN);
        int size = position;
        position += 4;
        put1(f.arity());
        raw(f.uniq());
        need(8);
        put4(f.index());
        put4(f.free().size());
        atom(f, f.module());
        integer(f.oldIndex());
        integer(f.oldUniq());
        write(f.pid());
        for (Object value : f.free()) {
            write(value);
        }
        put4(size, position - size);
        leave();
    }
}
