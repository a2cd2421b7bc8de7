package magnetar.etf;

import clojure.lang.ExceptionInfo;
import clojure.lang.IPersistentMap;
import clojure.lang.Keyword;
import clojure.lang.PersistentArrayMap;
import clojure.lang.PersistentVector;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * A value or bytes that are refused, on its way from where that is seen to the caller. The entry makes an
 * ExceptionInfo of it, which has the path or the offset. It has no stack of its own: bad input may be
 * frequent.
 */
@SuppressWarnings("serial") // never written
final class Refusal extends RuntimeException {

    static final Keyword REASON = Keyword.intern("magnetar", "reason");
    static final Keyword PATH = Keyword.intern("path");
    static final Keyword OFFSET = Keyword.intern("offset");
    static final Keyword VALUE = Keyword.intern("value");
    static final Keyword LIMIT = Keyword.intern("limit");
    static final Keyword TAG = Keyword.intern("tag");
    static final Keyword MAX_DEPTH = Keyword.intern("max-depth");
    static final Keyword MAX_SIZE = Keyword.intern("max-size");
    static final Keyword MAX_ATOMS = Keyword.intern("max-atoms");
    static final Keyword MAX_GROWTH = Keyword.intern("max-growth");
    static final Keyword KEYS_IN_KEYS = Keyword.intern("keys-in-keys");
    static final Keyword DIGITS = Keyword.intern("digits");
    static final Keyword EQUAL_HASHES = Keyword.intern("equal-hashes");

    private static final int MOST_SHOWN = 8;
    private static final int LONGEST_SHOWN = 40;

    private final Keyword reason;
    private final String what;
    private IPersistentMap data = PersistentArrayMap.EMPTY;
    private List<Object> path = List.of();

    private Refusal(String reason, String what, Throwable cause) {
        super(what, cause, false, false);
        this.reason = Keyword.intern("magnetar", reason);
        this.what = what;
    }

    /**
     * What is wrong with the value or the byte of which the message tells the place: how the sentence
     * goes on.
     */
    static Refusal refusal(String reason, String what) {
        return new Refusal(reason, what, null);
    }

    static Refusal refusal(String reason, String what, Throwable cause) {
        return new Refusal(reason, what, cause);
    }

    /** A limit of the codec that is exceeded. */
    static Refusal limit(Keyword option, long most, String what) {
        Refusal made = refusal("term-limit",
                what + " " + option + " allows, which is " + most + ". If it is to be allowed, "
                        + "give the codec a greater " + option + ".");
        return made.with(LIMIT, option).with(VALUE, most);
    }

    /** A limit that no option changes. */
    static Refusal fixed(Keyword limit, long most, String what) {
        return refusal("term-limit", what).with(LIMIT, limit).with(VALUE, most);
    }

    Refusal with(Keyword key, Object value) {
        data = data.assoc(key, value);
        return this;
    }

    /**
     * Notes that the value is in a collection, under this key or index. A term that is too long is so as
     * a whole.
     */
    Refusal in(Object key) {
        if (data.valAt(LIMIT) == MAX_SIZE) {
            return this;
        }
        if (path.isEmpty()) {
            path = new ArrayList<>();
        }
        path.add(key);
        return this;
    }

    private static Object shown(Object key) {
        return switch (key) {
            case null -> "nil";
            case Keyword k -> cut(k.toString());
            case Long n -> n;
            case String s -> '"' + cut(s) + '"';
            default -> key.getClass().getName();
        };
    }

    private static String cut(String key) {
        return key.length() <= LONGEST_SHOWN ? key : key.substring(0, LONGEST_SHOWN) + "..";
    }

    private static String shown(List<Object> path) {
        StringBuilder text = new StringBuilder("[");
        for (Object key : path.subList(0, Math.min(MOST_SHOWN, path.size()))) {
            text.append(text.length() > 1 ? " " : "").append(shown(key));
        }
        return text.append(path.size() > MOST_SHOWN ? " .." : "").append("]").toString();
    }

    private ExceptionInfo made(String message, Keyword key, Object place) {
        return new ExceptionInfo(message, data.assoc(REASON, reason).assoc(key, place), getCause());
    }

    /** The error of an encoding. */
    ExceptionInfo onEncode() {
        List<Object> keys = new ArrayList<>(path);
        Collections.reverse(keys);
        String place = keys.isEmpty() ? "the value" : "the value at " + shown(keys);
        return made("`magnetar.etf/encode`: " + place + " " + what, PATH, PersistentVector.create(keys));
    }

    /** The error of a decoding. */
    ExceptionInfo onDecode(long offset) {
        return made("`magnetar.etf/decode`: the term at byte " + offset + " " + what, OFFSET, offset);
    }
}
