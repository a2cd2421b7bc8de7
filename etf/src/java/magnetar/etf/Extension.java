package magnetar.etf;

import clojure.lang.IFn;
import clojure.lang.Keyword;

/**
 * How values of a class that has no term of its own travel: under a tag, as another value.
 *
 * @param tag a keyword with a namespace, the same on both sides
 * @param type the class or interface of the values
 * @param write from a value of the class to its payload
 * @param read from a payload, which is not to be trusted, to a value
 */
public record Extension(Keyword tag, Class<?> type, IFn write, IFn read) {}
