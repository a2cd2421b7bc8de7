package magnetar.kernel.process;

/**
 * Finds the most frequent of many names, with room for some of the names only. Its user passes all names
 * to {@link #vote}. If there was no room for a name, that selects candidates only, and the user passes all
 * names to {@link #count} too.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A name that more than one in {@value #CANDIDATES} votes are for is a candidate. It loses a vote only
 *       together with a vote of each other candidate, and with the vote that finds no room.
 *   <li>The counts of the first pass are exact if there was room for all names. The second pass counts exactly.
 *   <li>It allocates nothing after it was made.
 *   <li>Half of the places are free, so a search is short. A search ends at a free place.
 * </ol>
 *
 * <p>Used by one thread at a time.
 *
 * <p>Source: Misra and Gries, Finding repeated elements, 1982. Rejected: exact counts of the names that come
 * first. The most frequent one may come later.
 */
final class HeavyHitters {
    /** How many names have room. */
    static final int CANDIDATES = 256;

    private static final int PLACES = 2 * CANDIDATES; // a power of two

    private String[] names = new String[PLACES];
    private int[] counts = new int[PLACES];
    private int candidates;
    private int all;
    private boolean exact = true;

    // Empty, except while votes are taken away.
    private String[] spareNames = new String[PLACES];
    private int[] spareCounts = new int[PLACES];

    /** Forgets all names. */
    void clear() {
        for (int i = 0; i < PLACES; i++) {
            names[i] = null;
            counts[i] = 0;
        }
        candidates = 0;
        all = 0;
        exact = true;
    }

    /** The first pass: votes for a name. */
    void vote(String name) {
        all++;
        int place = placeOf(name);
        if (names[place] != null) {
            counts[place]++;
        } else if (candidates < CANDIDATES) {
            put(place, name, 1);
        } else {
            takeVotes();
        }
    }

    private int placeOf(String name) {
        int place = name.hashCode() & (PLACES - 1);
        while (names[place] != null && !names[place].equals(name)) {
            place = (place + 1) & (PLACES - 1);
        }
        return place;
    }

    private void put(int place, String name, int count) {
        names[place] = name;
        counts[place] = count;
        candidates++;
    }

    /** Takes a vote from each candidate. Those that have votes left move to the other table. */
    private void takeVotes() {
        String[] fromNames = names;
        int[] fromCounts = counts;
        names = spareNames;
        counts = spareCounts;
        spareNames = fromNames;
        spareCounts = fromCounts;
        candidates = 0;
        exact = false;
        for (int i = 0; i < PLACES; i++) {
            if (fromCounts[i] > 1) {
                put(placeOf(fromNames[i]), fromNames[i], fromCounts[i] - 1);
            }
            fromNames[i] = null;
            fromCounts[i] = 0;
        }
    }

    /** True if the counts are exact without a second pass. */
    boolean isExact() {
        return exact;
    }

    /** Begins the second pass. */
    void startCounting() {
        all = 0;
        for (int i = 0; i < PLACES; i++) {
            counts[i] = 0;
        }
    }

    /** The second pass: counts a name. */
    void count(String name) {
        all++;
        int place = placeOf(name);
        if (names[place] != null) {
            counts[place]++;
        }
    }

    /** How many names there are. */
    int all() {
        return all;
    }

    private int top() {
        int top = 0;
        for (int i = 1; i < PLACES; i++) {
            top = counts[i] > counts[top] ? i : top;
        }
        return top;
    }

    /** The candidate that was counted most often. */
    String name() {
        return names[top()];
    }

    /** How often it was counted. */
    int count() {
        return counts[top()];
    }
}
