package magnetar.kernel.process;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** A set that costs nothing while it is empty and one word with one element. Guarded by whoever holds it. */
final class Bag<T> {
    private Object held; // null, the one element, or a set of more

    boolean add(T element) {
        if (held == null) {
            held = element;
            return true;
        }
        return !contains(element) && set().add(element);
    }

    boolean remove(Object element) {
        if (held instanceof Set<?> s) {
            return s.remove(element);
        }
        boolean found = element.equals(held);
        held = found ? null : held;
        return found;
    }

    boolean contains(Object element) {
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

    /** Its elements, in the order in which they came. */
    @SuppressWarnings("unchecked")
    List<T> list() {
        if (held == null) {
            return List.of();
        }
        return held instanceof Set<?> s ? new ArrayList<>((Set<T>) s) : List.of((T) held);
    }

    List<T> takeAll() {
        List<T> all = list();
        held = null;
        return all;
    }
}
