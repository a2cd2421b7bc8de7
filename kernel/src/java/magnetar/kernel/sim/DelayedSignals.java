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

    private final Map<Way, ArrayDeque<Signal>> ways = new HashMap<>();
    private final List<Signal> signals = new ArrayList<>(); // by due time, then in the order of sending

    /** A delayed signal. */
    static final class Signal {
        private final Way way;
        private final Runnable arrival;
        private final long due;
        private boolean arrives;

        private Signal(Way way, long due, Runnable arrival) {
            this.way = way;
            this.due = due;
            this.arrival = arrival;
        }
    }

    boolean isEmpty() {
        return signals.isEmpty();
    }

    boolean isUsed(Object from, Object to) {
        return ways.containsKey(new Way(from, to));
    }

    /**
     * Adds a signal due at this instant, or with the last one of its pair if that is later. Returns when it
     * is due.
     */
    long take(Object from, Object to, long due, Runnable arrival) {
        ArrayDeque<Signal> way = ways.computeIfAbsent(new Way(from, to), w -> new ArrayDeque<>());
        Signal signal = new Signal(new Way(from, to), way.isEmpty() ? due : Math.max(due, way.getLast().due), arrival);
        way.add(signal);
        int place = signals.size();
        while (place > 0 && signals.get(place - 1).due > signal.due) {
            place--;
        }
        signals.add(place, signal);
        return signal.due;
    }

    /** The next due signal that is the first of its pair; null if there is no such signal. */
    Signal next(long now) {
        for (Signal l : signals) {
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
    Signal first(Object from, Object to) {
        ArrayDeque<Signal> way = ways.get(new Way(from, to));
        return way == null ? null : way.peek();
    }

    /** Delivers the signal. Returns false, and does nothing, if another fiber is delivering it. */
    boolean deliver(Signal signal) {
        if (signal.arrives) {
            return false;
        }
        signal.arrives = true;
        try {
            signal.arrival.run();
        } finally {
            signals.remove(signal);
            ArrayDeque<Signal> way = ways.get(signal.way);
            way.poll();
            if (way.isEmpty()) {
                ways.remove(signal.way);
            }
        }
        return true;
    }
}
