package magnetar.kernel.process;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class HeavyHittersTest {
    private final HeavyHitters hitters = new HeavyHitters();

    private void expect(String name, int count, List<String> names) {
        hitters.clear();
        names.forEach(hitters::vote);
        assertEquals(names.size(), hitters.all());
        if (hitters.isExact()) {
            assertEquals(count, hitters.count());
            assertEquals(name, hitters.name());
        }
        hitters.startCounting();
        names.forEach(hitters::count);
        assertEquals(count, hitters.count());
        assertEquals(name, hitters.name());
        assertEquals(names.size(), hitters.all());
    }

    private static List<String> different(int n) {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            names.add("session-" + i);
        }
        return names;
    }

    private static List<String> times(int n, String name) {
        return Collections.nCopies(n, name);
    }

    private static List<String> all(List<String> some, List<String> more) {
        List<String> all = new ArrayList<>(some);
        all.addAll(more);
        return all;
    }

    @Test
    void ofNoNamesNoneIsFrequent() {
        expect(null, 0, List.of());
    }

    @Test
    void fewNamesAreCounted() {
        expect("a", 1, List.of("a"));
        expect("b", 2, List.of("a", "b", new String("b")));
        expect("c", 3, List.of("c", "a", "c", "b", "b", "c"));
    }

    @Test
    void ofEquallyFrequentNamesItTellsOne() {
        expect("a", 2, List.of("b", "a", "b", "a"));
    }

    @Test
    void theMostFrequentNameIsFoundWhereverItComes() {
        List<String> others = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            others.addAll(different(300));
        }
        List<String> flood = times(1500, "flood");
        expect("flood", 1500, all(others, flood));
        expect("flood", 1500, all(flood, others));
        List<String> mixed = all(flood, others);
        for (int seed = 0; seed < 20; seed++) {
            Collections.shuffle(mixed, new Random(seed));
            expect("flood", 1500, mixed);
        }
    }

    @Test
    void aNameWithMoreThanItsShareOfTheVotesIsACandidate() {
        List<String> room = different(HeavyHitters.CANDIDATES);
        expect("flood", 2, all(room, times(2, "flood")));
        expect("flood", 2, all(all(times(1, "flood"), room), times(1, "flood")));
        expect("flood", 3, all(all(room, room), times(3, "flood")));
        List<String> names = all(different(3 * HeavyHitters.CANDIDATES - 1), times(3, "flood"));
        for (int seed = 0; seed < 20; seed++) {
            Collections.shuffle(names, new Random(seed));
            expect("flood", 3, names);
        }
    }

    @Test
    void theVotesAreExactWhileThereIsRoom() {
        assertTrue(hitters.isExact());
        different(HeavyHitters.CANDIDATES).forEach(hitters::vote);
        different(HeavyHitters.CANDIDATES).forEach(hitters::vote);
        assertTrue(hitters.isExact());
        hitters.vote("one more");
        assertFalse(hitters.isExact());
        hitters.clear();
        assertTrue(hitters.isExact());
    }

    @Test
    void allCandidatesLoseAVoteWhenOneMoreNameComes() {
        expect(null, 0, different(HeavyHitters.CANDIDATES + 1));
        assertEquals(1, countOfFirst(HeavyHitters.CANDIDATES));
    }

    private int countOfFirst(int names) {
        hitters.clear();
        different(names).forEach(hitters::vote);
        hitters.startCounting();
        hitters.count("session-0");
        return hitters.count();
    }

    @Test
    void theOnesThatKeepVotesAreFoundAgain() {
        int kept = 100;
        different(kept).forEach(hitters::vote);
        different(HeavyHitters.CANDIDATES + 1).forEach(hitters::vote); // the last one takes a vote from each
        hitters.startCounting();
        for (int i = 0; i < HeavyHitters.CANDIDATES; i++) {
            for (int times = 0; times <= i; times++) {
                hitters.count("session-" + i);
            }
            assertEquals(Math.min(i + 1, kept), hitters.count());
        }
        assertEquals("session-99", hitters.name());
    }

    @Test
    void namesOfOnePlaceAreKeptApart() {
        List<String> same = List.of("AaAa", "AaBB", "BBAa", "BBBB"); // of one hash code
        List<String> names = new ArrayList<>();
        for (int i = 0; i < same.size(); i++) {
            names.addAll(times(i + 2, same.get(i)));
        }
        expect("BBBB", 5, names);
        expect("BBBB", 5, all(names, different(HeavyHitters.CANDIDATES - 3)));
        Collections.reverse(names);
        expect("BBBB", 5, all(names, different(HeavyHitters.CANDIDATES - 3)));
    }

    @Test
    void theFirstPlaceFollowsTheLastOne() {
        List<String> last = new ArrayList<>();
        for (int i = 0; last.size() < 3; i++) {
            if ((("n" + i).hashCode() & 511) == 511) {
                last.add("n" + i);
            }
        }
        List<String> names = all(last, times(3, last.get(2)));
        expect(last.get(2), 4, names);
        expect(last.get(2), 4, all(names, different(HeavyHitters.CANDIDATES - 2)));
    }

    @Test
    void whatIsNoCandidateIsNotCounted() {
        hitters.vote("a");
        hitters.startCounting();
        assertEquals(0, hitters.count());
        hitters.count("b");
        assertEquals(0, hitters.count());
        assertEquals(1, hitters.all());
    }

    @Test
    void itForgets() {
        different(HeavyHitters.CANDIDATES).forEach(hitters::vote);
        hitters.startCounting();
        hitters.count("session-0");
        hitters.clear();
        assertEquals(0, hitters.count());
        assertEquals(0, hitters.all());
        hitters.vote("a");
        hitters.startCounting();
        hitters.count("a");
        hitters.count("session-0");
        hitters.count("session-0");
        assertEquals(1, hitters.count());
        assertEquals("a", hitters.name());
        assertEquals(3, hitters.all());
    }
}
