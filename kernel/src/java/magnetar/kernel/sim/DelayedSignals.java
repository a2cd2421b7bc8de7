package magnetar.kernel.sim;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Delayed signals: sent, and not arrived yet. Erlang orders the signals of one sender to one receiver, and no
 * others. So each such pair has a queue of its own, and a delay in one queue does not hold up the others.
 * Only accessed by the fiber that the carrier runs.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The signals of a pair arrive in the order in which they were sent. While one is delayed or being
 *       delivered, later ones queue behind it.
 *   <li>Each signal arrives once, whichever fiber delivers it.
 * </ol>
 */
final class DelayedSignals {
    /**
     * The pair of a sending process or fiber and a receiving process. Only a key of a map that is never
     * iterated.
     */
    private record Way(Object from, Object to) {}

    private final Map<Way, ArrayDeque<Letter>> ways = new HashMap<>();
    private final List<Letter> letters = new ArrayList<>(); // by due time, then in the order of sending

    /** A delayed signal. */
    static final class Letter {
        private final Way way;
        private final Runnable arrival;
        private final long due;
        private boolean arrives;

        private Letter(Way way, long due, Runnable arrival) {
            this.way = way;
            this.due = due;
            this.arrival = arrival;
        }
    }

    boolean isEmpty() {
        return letters.isEmpty();
    }

    boolean isUsed(Object from, Object to) {
        return ways.containsKey(new Way(from, to));
    }

    /**
     * Adds a signal due at this instant, or with the last one of its pair if that is later. Returns when it
     * is due.
     */
    long take(Object from, Object to, long due, Runnable arrival) {
        ArrayDeque<Letter> way = ways.computeIfAbsent(new Way(from, to), w -> new ArrayDeque<>());
        Letter letter = new Letter(new Way(from, to), way.isEmpty() ? due : Math.max(due, way.getLast().due), arrival);
        way.add(letter);
        int place = letters.size();
        while (place > 0 && letters.get(place - 1).due > letter.due) {
            place--;
        }
        letters.add(place, letter);
        return letter.due;
    }

    /** The next due signal that is the first of its pair; null if there is no such signal. */
    Letter next(long now) {
        for (Letter l : letters) {
            if (l.due > now) {
                return null;
            }
            if (ways.get(l.way).peek() == l && !l.arrives) {
                return l;
            }
        }
        return null;
    }

    /** The first signal of a pair, or null. */
    Letter first(Object from, Object to) {
        ArrayDeque<Letter> way = ways.get(new Way(from, to));
        return way == null ? null : way.peek();
    }

    /** Delivers the signal. Returns false, and does nothing, if another fiber is delivering it. */
    boolean deliver(Letter letter) {
        if (letter.arrives) {
            return false;
        }
        letter.arrives = true;
        try {
            letter.arrival.run();
        } finally {
            letters.remove(letter);
            ArrayDeque<Letter> way = ways.get(letter.way);
            way.poll();
            if (way.isEmpty()) {
                ways.remove(letter.way);
            }
        }
        return true;
    }
}
