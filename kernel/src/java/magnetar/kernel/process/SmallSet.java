package magnetar.kernel.process;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * A small set: null until it has held an element, and one field wide with one element. Its holder guards it.
 */
class SmallSet<T> {
    private Object held; // null, the one element, or a set of more

    /** Adds the element, and returns the set. */
    static <T> SmallSet<T> with(SmallSet<T> set, T element) {
        SmallSet<T> b = set == null ? new SmallSet<>() : set;
        b.add(element);
        return b;
    }

    /** Removes the element; false if the set did not hold it. */
    static boolean remove(SmallSet<?> set, Object element) {
        return set != null && set.remove(element);
    }

    /** The set, or null if it is empty. */
    static <B extends SmallSet<?>> B slim(B set) {
        return isEmpty(set) ? null : set;
    }

    /** True if it is empty. */
    static boolean isEmpty(SmallSet<?> set) {
        return set == null || set.held == null || set.held instanceof Set<?> s && s.isEmpty();
    }

    /** True if it holds the element. */
    static boolean contains(SmallSet<?> set, Object element) {
        return set != null && set.contains(element);
    }

    /** Its elements, in the order in which they were added. */
    static <T> List<T> list(SmallSet<T> set) {
        return set == null ? List.of() : set.list();
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
