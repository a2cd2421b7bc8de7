package magnetar.etf;

import clojure.lang.ASeq;
import clojure.lang.Counted;
import clojure.lang.IFn;
import clojure.lang.IPersistentCollection;
import clojure.lang.IPersistentList;
import clojure.lang.IPersistentMap;
import clojure.lang.IReduce;
import clojure.lang.ISeq;
import clojure.lang.PersistentList;
import clojure.lang.RT;
import clojure.lang.Reduced;
import java.util.Arrays;

/**
 * A list over an array that is never written again. Clojure's own list has a cell of 40 bytes per
 * element, and an element of a term may have one byte.
 *
 * <p>The array holds the elements, or as bytes the numbers from 0 to 255. An element in front makes a list
 * of Clojure: the array cannot grow there.
 */
@SuppressWarnings("serial") // an array of objects is written if its elements are
final class TermList extends ASeq implements IPersistentList, Counted, IReduce {

    private static final Long[] NUMBERS = new Long[256];
    private static final IPersistentList[] SINGLE = new IPersistentList[256];

    static {
        for (int i = 0; i < NUMBERS.length; i++) {
            NUMBERS[i] = (long) i;
            SINGLE[i] = new PersistentList(NUMBERS[i]);
        }
    }

    private final Object array;
    private final int at;

    private TermList(IPersistentMap meta, Object array, int at) {
        super(meta);
        this.array = array;
        this.at = at;
    }

    /** The boxed number from 0 to 255. */
    static Long number(int n) {
        return NUMBERS[n];
    }

    /** The list of these elements. The array belongs to the list from now on. */
    static IPersistentList of(Object[] items) {
        return switch (items.length) {
            case 0 -> PersistentList.EMPTY;
            case 1 -> new PersistentList(items[0]);
            default -> new TermList(null, items, 0);
        };
    }

    /** The list of these bytes as numbers from 0 to 255. */
    static IPersistentList of(byte[] bytes, int from, int to) {
        return switch (to - from) {
            case 0 -> PersistentList.EMPTY;
            case 1 -> SINGLE[bytes[from] & 255];
            case 2 -> (IPersistentList) ((PersistentList) SINGLE[bytes[from + 1] & 255])
                    .cons(NUMBERS[bytes[from] & 255]);
            default -> new TermList(null, Arrays.copyOfRange(bytes, from, to), 0);
        };
    }

    private int length() {
        return array instanceof byte[] bytes ? bytes.length : ((Object[]) array).length;
    }

    private Object item(int i) {
        return array instanceof byte[] bytes ? NUMBERS[bytes[i] & 255] : ((Object[]) array)[i];
    }

    @Override
    public Object first() {
        return item(at);
    }

    @Override
    public ISeq next() {
        return at + 1 < length() ? new TermList(null, array, at + 1) : null;
    }

    @Override
    public int count() {
        return length() - at;
    }

    @Override
    public IPersistentCollection empty() {
        return PersistentList.EMPTY;
    }

    @Override
    public ISeq cons(Object item) {
        return (ISeq) ((IPersistentCollection) PersistentList.create(this)).cons(item);
    }

    @Override
    public Object peek() {
        return first();
    }

    @Override
    public IPersistentList pop() {
        ISeq next = next();
        return next == null ? PersistentList.EMPTY : (IPersistentList) next;
    }

    @Override
    public TermList withMeta(IPersistentMap meta) {
        return meta == meta() ? this : new TermList(meta, array, at);
    }

    @Override
    public Object reduce(IFn f) {
        return reduce(f, first(), at + 1);
    }

    @Override
    public Object reduce(IFn f, Object start) {
        return reduce(f, start, at);
    }

    private Object reduce(IFn f, Object start, int from) {
        Object result = start;
        int n = length();
        for (int i = from; i < n; i++) {
            result = f.invoke(result, item(i));
            if (RT.isReduced(result)) {
                return ((Reduced) result).deref();
            }
        }
        return result;
    }
}
