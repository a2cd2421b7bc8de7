/**
 * Erlang's external term format: a codec between the values of Clojure and bytes, over Clojure and the
 * JDK alone.
 *
 * <p>A program has one {@link magnetar.etf.Codec}, which all threads share. Each connection has an {@link
 * magnetar.etf.Encoder} and a {@link magnetar.etf.Decoder} of it, used by one thread at a time. For a packet
 * of several terms, {@code begin} takes the array of the packet and a position, {@code append} writes a
 * term, and {@code buffer} and {@code length} say where it is. On the other side {@code read} reads the term
 * at an offset, and {@code position} says where the next one begins.
 */
package magnetar.etf;
