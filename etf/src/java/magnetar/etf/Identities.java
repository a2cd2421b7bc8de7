package magnetar.etf;

/**
 * Maps the identities of a program, such as the addresses of its processes, to pids, ports and
 * references, and back. A codec with this hook writes the program's own objects as terms of Erlang and
 * reads them as the same.
 *
 * <p>Any number of threads may call it. What it throws on reading refuses the term.
 */
public interface Identities {

    /**
     * The {@link Pid}, {@link Port} or {@link Reference} that stands for the value; null if it is not an
     * identity. It may be an {@link ImproperList} with one, as the tag of a call has. That is read as the list.
     */
    Object write(Object value);

    /**
     * What a {@link Pid}, {@link Port} or {@link Reference} that was read stands for; the argument itself
     * if unknown.
     */
    Object read(Object identity);
}
