package magnetar.etf;

import java.util.Objects;

/** The pid of a process of Erlang. The numbers are unsigned and have 32 bits. */
public record Pid(String node, long id, long serial, long creation) {

    public Pid {
        Objects.requireNonNull(node, "node");
        Range.check("The id of a pid", id, Range.UNSIGNED_INT);
        Range.check("The serial of a pid", serial, Range.UNSIGNED_INT);
        Range.check("The creation of a pid", creation, Range.UNSIGNED_INT);
    }
}
