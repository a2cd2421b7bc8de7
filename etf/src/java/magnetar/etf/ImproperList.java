package magnetar.etf;

import clojure.lang.IPersistentList;
import clojure.lang.IPersistentVector;
import clojure.lang.Sequential;

/** A list of Erlang that does not end with the empty list, as {@code [a, b | tail]}. */
public record ImproperList(IPersistentList items, Object tail) {

    public ImproperList {
        if (items.count() == 0) {
            throw new IllegalArgumentException("An improper list has at least one item before its tail.");
        }
        boolean list = tail instanceof Sequential && !(tail instanceof IPersistentVector);
        if (list || tail instanceof ImproperList) {
            String found = tail.getClass().getName();
            throw new IllegalArgumentException("An improper list has no list as its tail; this is " + found);
        }
    }
}
