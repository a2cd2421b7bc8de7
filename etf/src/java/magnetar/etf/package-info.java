/**
 * Erlang's external term format: a codec between the values of Clojure and bytes, over Clojure and the
 * JDK alone.
 */
package magnetar.etf;
