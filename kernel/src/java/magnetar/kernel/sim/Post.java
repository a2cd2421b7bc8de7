package magnetar.kernel.sim;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Signals on their way: sent, and not arrived yet. Erlang orders the signals of one sender to one receiver and no others, so each such pair has a
 * way of its own, and what takes long on one lets those on others pass. Only accessed by the fiber that the carrier runs.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The signals of a pair arrive in the order in which they were sent: while one is on its way, or arrives, later ones come behind it.
 *   <li>Each arrives once, whoever lets it.
 * </ol>
 */
final class Post {
    /** From a process or fiber to a process; a key only, never gone through. */
    private record Way(Object from, Object to) {}

    private final Map<Way, ArrayDeque<Letter>> ways = new HashMap<>();
    private final List<Letter> letters = new ArrayList<>(); // by when they are due, then as they were sent

    /** A signal. */
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

    /** Takes a signal, due at this instant, or with the last one of its pair if that is later; returns when. */
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

    /** The next one that is due and has nobody before it. */
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

    /** The first one of a pair. */
    Letter first(Object from, Object to) {
        ArrayDeque<Letter> way = ways.get(new Way(from, to));
        return way == null ? null : way.peek();
    }

    /** Lets it arrive; false, and nothing was done, if it does already, on another fiber. */
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
