package magnetar.kernel.process;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * A small set: null until it has held an element, and one field wide with one element. Its holder guards it.
 */
class Bag<T> {
    private Object held; // null, the one element, or a set of more

    /** Adds the element, and returns the set. */
    static <T> Bag<T> with(Bag<T> bag, T element) {
        Bag<T> b = bag == null ? new Bag<>() : bag;
        b.add(element);
        return b;
    }

    /** Removes the element; false if the set did not hold it. */
    static boolean remove(Bag<?> bag, Object element) {
        return bag != null && bag.remove(element);
    }

    /** The set, or null if it is empty. */
    static <B extends Bag<?>> B slim(B bag) {
        return isEmpty(bag) ? null : bag;
    }

    /** True if it is empty. */
    static boolean isEmpty(Bag<?> bag) {
        return bag == null || bag.held == null || bag.held instanceof Set<?> s && s.isEmpty();
    }

    /** True if it holds the element. */
    static boolean contains(Bag<?> bag, Object element) {
        return bag != null && bag.contains(element);
    }

    /** Its elements, in the order in which they were added. */
    static <T> List<T> list(Bag<T> bag) {
        return bag == null ? List.of() : bag.list();
    }

    final boolean add(T element) {
        if (held == null) {
            held = element;
            return true;
        }
        return !contains(element) && set().add(element);
    }

    final boolean remove(Object element) {
        if (held instanceof Set<?> s) {
            return s.remove(element);
        }
        boolean found = element.equals(held);
        held = found ? null : held;
        return found;
    }

    final boolean contains(Object element) {
        return held instanceof Set<?> s ? s.contains(element) : element.equals(held);
    }

    @SuppressWarnings("unchecked")
    private Set<T> set() {
        if (held instanceof Set<?> s) {
            return (Set<T>) s;
        }
        Set<T> s = new LinkedHashSet<>();
        s.add((T) held);
        held = s;
        return s;
    }

    @SuppressWarnings("unchecked")
    private List<T> list() {
        if (held == null) {
            return List.of();
        }
        return held instanceof Set<?> s ? new ArrayList<>((Set<T>) s) : List.of((T) held);
    }
}
