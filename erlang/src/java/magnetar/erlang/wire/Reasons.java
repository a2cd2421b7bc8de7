package magnetar.erlang.wire;

import clojure.lang.IPersistentMap;
import clojure.lang.IPersistentVector;
import clojure.lang.IRecord;
import clojure.lang.Keyword;
import clojure.lang.LazilyPersistentVector;
import clojure.lang.Named;
import clojure.lang.PersistentHashMap;
import clojure.lang.PersistentList;
import clojure.lang.Symbol;
import clojure.lang.Tuple;
import java.util.Arrays;
import java.util.Map;
import magnetar.kernel.process.Dialect;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.Ref;

/**
 * Exit reasons that have no term in Erlang, as the nearest ones that have. A symbol becomes an atom, as in the call that has
 * failed. What has no term, and long text, becomes bounded text. What has too many parts is text as a whole.
 *
 * <p>No code of the program runs: sequences that may be lazy become text too, which shows what is there.
 */
final class Reasons {
    private static final Keyword UNSENDABLE = Keyword.intern("unsendable");
    private static final Keyword NODEDOWN = Keyword.intern("nodedown");
    private static final int MOST_PARTS = 1000;
    private static final int DEEPEST = 16;
    private static final int LONGEST_ATOM = 255;
    private static final int LONGEST_TEXT = 1000;

    private int parts;

    private Reasons() {}

    /** A reason that can be written, instead of one that cannot. */
    static Object sendable(Object reason) {
        Reasons of = new Reasons();
        Object near = of.near(reason, 0);
        return of.parts > MOST_PARTS || near instanceof String ? text(reason) : near;
    }

    /** The reason as text, which can always be written. */
    static Object text(Object reason) {
        return Tuple.create(UNSENDABLE, Dialect.text(reason));
    }

    private Object near(Object x, int depth) {
        if (++parts > MOST_PARTS || depth > DEEPEST) {
            return Dialect.text(x);
        }
        return switch (x) {
            case IPersistentVector v when isNodedown(v) -> Tuple.create(NODEDOWN, Keyword.intern((String) v.nth(1)));
            case IPersistentVector v when isCall(v) -> Tuple.create(near(v.nth(0), depth), v.nth(1), list((IPersistentVector) v.nth(2), depth));
            case IPersistentVector v -> LazilyPersistentVector.createOwning(items(v, depth));
            case IPersistentMap m when !(x instanceof IRecord) -> map(m, depth);
            case Symbol s when isAtom(s) -> Keyword.intern(s);
            case Keyword k when isAtom(k) -> k;
            case String s when s.length() <= LONGEST_TEXT -> s;
            case Double d when Double.isFinite(d) -> d;
            case Boolean _, Long _, Integer _, Pid _, Ref _ -> x;
            case null -> null;
            default -> Dialect.text(x);
        };
    }

    /** The name of a node is an atom there. */
    private static boolean isNodedown(IPersistentVector v) {
        return v.length() == 2 && v.nth(0) == NODEDOWN && v.nth(1) instanceof String s && s.length() <= LONGEST_ATOM;
    }

    private static boolean isAtom(Named named) {
        String namespace = named.getNamespace();
        return named.getName().length() + (namespace == null ? 0 : 1 + namespace.length()) <= LONGEST_ATOM;
    }

    /** True for {@code [module function arguments]}, the call that has failed. Its arguments are a list there. */
    private static boolean isCall(IPersistentVector v) {
        return v.length() == 3 && v.nth(0) instanceof Symbol && v.nth(1) instanceof Keyword && v.nth(2) instanceof IPersistentVector;
    }

    private Object list(IPersistentVector v, int depth) {
        return PersistentList.create(Arrays.asList(items(v, depth)));
    }

    private Object[] items(IPersistentVector v, int depth) {
        Object[] near = new Object[Math.min(v.length(), MOST_PARTS)];
        for (int i = 0; i < near.length; i++) {
            near[i] = near(v.nth(i), depth + 1);
        }
        parts += v.length() - near.length;
        return near;
    }

    private Object map(IPersistentMap m, int depth) {
        IPersistentMap near = PersistentHashMap.EMPTY;
        for (Object each : m) {
            Map.Entry<?, ?> entry = (Map.Entry<?, ?>) each;
            if (parts > MOST_PARTS) {
                break;
            }
            near = near.assoc(near(entry.getKey(), depth + 1), near(entry.getValue(), depth + 1));
        }
        return near;
    }
}
