package magnetar.lincheck;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/** The sequential specification: what a channel does, one operation at a time. */
final class Model {
    /** The kinds of buffers, by what happens to a value when there is no room. */
    enum Kind {
        RENDEZVOUS, FIXED, DROPPING, SLIDING, PROMISE, UNBOUNDED
    }

    /** A party that waits, perhaps in two channels. */
    static final class Party {
        boolean served;
    }

    private record Place(Party party, Integer item) {}

    private final Kind kind;
    private final int capacity;
    private final Deque<Integer> values = new ArrayDeque<>();
    private final List<Place> takers = new ArrayList<>();
    private final List<Place> putters = new ArrayList<>();
    private boolean closed;

    Model(Kind kind, int capacity) {
        this.kind = kind;
        this.capacity = capacity;
    }

    /** A put: true, false or PENDING. If it has to wait, the party is queued, unless it is null. */
    String put(int value, Party party) {
        if (closed) {
            return "false";
        }
        if (kind != Kind.PROMISE && serve(takers) != null) {
            return "true";
        }
        if (kind == Kind.RENDEZVOUS || kind == Kind.FIXED && values.size() >= capacity) {
            return queue(putters, party, value);
        }
        insert(value);
        while (kind == Kind.PROMISE && serve(takers) != null) {}
        return "true";
    }

    private void insert(int value) {
        switch (kind) {
            case PROMISE -> {
                if (values.isEmpty()) {
                    values.add(value);
                }
            }
            case DROPPING -> {
                if (values.size() < capacity) {
                    values.add(value);
                }
            }
            case SLIDING -> {
                if (values.size() == capacity) {
                    values.poll();
                }
                values.add(value);
            }
            default -> values.add(value);
        }
    }

    /** A take: the value, null if closed, or PENDING. */
    String take(Party party) {
        if (!values.isEmpty()) {
            return String.valueOf(kind == Kind.PROMISE ? values.peek() : takeBuffered());
        }
        Place putter = serve(putters);
        if (putter != null) {
            return String.valueOf(putter.item);
        }
        return closed ? "null" : queue(takers, party, null);
    }

    private int takeBuffered() {
        int value = values.poll();
        Place putter = serve(putters);
        if (putter != null) {
            values.add(putter.item);
        }
        return value;
    }

    private static String queue(List<Place> queue, Party party, Integer item) {
        if (party != null) {
            queue.add(new Place(party, item));
        }
        return "PENDING";
    }

    /** Removes and serves the first party that was not served elsewhere. */
    private static Place serve(List<Place> queue) {
        while (!queue.isEmpty()) {
            Place first = queue.removeFirst();
            if (!first.party.served) {
                first.party.served = true;
                return first;
            }
        }
        return null;
    }

    void close() {
        closed = true;
        takers.forEach(t -> t.party.served = true);
        takers.clear();
    }

    boolean isClosed() {
        return closed;
    }
}
