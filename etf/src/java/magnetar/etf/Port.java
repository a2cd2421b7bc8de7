package magnetar.etf;

import java.util.Objects;

/** The identifier of a port of Erlang. The id is unsigned and has 64 bits, the creation has 32. */
public record Port(String node, long id, long creation) {

    public Port {
        Objects.requireNonNull(node, "node");
        Range.check("The creation of a port", creation, Range.UNSIGNED_INT);
    }
}
