package magnetar.kernel.fiber;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class ShardTest {
    private final Shard shard = new Shard((byte) 3);

    private static Fiber fiber() {
        return new Fiber(Thread.ofVirtual().unstarted(() -> {}), Environment.REAL);
    }

    private List<Fiber> added(int n) {
        List<Fiber> fibers = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            Fiber f = fiber();
            shard.add(f);
            assertEquals(3, f.shard);
            fibers.add(f);
        }
        return fibers;
    }

    private void remove(Fiber f) {
        shard.remove(f);
        assertEquals(Fiber.UNLISTED, f.shard);
    }

    private List<Fiber> listed() {
        List<Fiber> listed = new ArrayList<>();
        shard.each(listed::add);
        assertEquals(listed.size(), shard.size());
        for (int i = 0; i < shard.fibers.length; i++) {
            assertSame(i < listed.size() ? listed.get(i) : null, shard.fibers[i]);
        }
        return listed;
    }

    @Test
    void anEmptyOneListsNothing() {
        assertEquals(List.of(), listed());
        assertEquals(16, shard.fibers.length);
    }

    @Test
    void theLastFiberTakesThePlaceOfTheOneThatLeaves() {
        List<Fiber> fibers = added(4);
        assertEquals(fibers, listed());
        remove(fibers.get(1));
        assertEquals(List.of(fibers.get(0), fibers.get(3), fibers.get(2)), listed());
        remove(fibers.get(3));
        assertEquals(List.of(fibers.get(0), fibers.get(2)), listed());
        remove(fibers.get(2));
        assertEquals(List.of(fibers.get(0)), listed());
        remove(fibers.get(0));
        assertEquals(List.of(), listed());
    }

    @Test
    void aFiberThatIsNotListedHereIsLeftAlone() {
        List<Fiber> fibers = added(3);
        shard.remove(fiber());
        Shard other = new Shard((byte) 4);
        Fiber elsewhere = fiber();
        other.add(elsewhere);
        shard.remove(elsewhere);
        assertEquals(4, elsewhere.shard);
        assertEquals(1, other.size());
        remove(fibers.get(0));
        remove(fibers.get(0)); // a second time
        assertEquals(List.of(fibers.get(2), fibers.get(1)), listed());
    }

    @Test
    void aFiberIsListedAgainInAnyShard() {
        Fiber f = added(1).get(0);
        remove(f);
        Shard other = new Shard((byte) 4);
        other.add(fiber());
        other.add(f);
        assertEquals(4, f.shard);
        assertEquals(1, f.place);
    }

    @Test
    void theArrayIsDoubledWhenItIsFull() {
        added(16);
        assertEquals(16, shard.fibers.length);
        added(1);
        assertEquals(32, shard.fibers.length);
        added(16);
        assertEquals(64, shard.fibers.length);
        assertEquals(33, listed().size());
    }

    @Test
    void theArrayIsHalvedWhenAQuarterOfItIsUsed() {
        List<Fiber> fibers = added(65);
        assertEquals(128, shard.fibers.length);
        while (!fibers.isEmpty()) {
            Fiber[] before = shard.fibers;
            remove(fibers.removeFirst());
            if (before.length > 16 && fibers.size() == before.length / 4) {
                assertEquals(before.length / 2, shard.fibers.length);
            } else {
                assertSame(before, shard.fibers);
            }
            assertEquals(new HashSet<>(fibers), new HashSet<>(listed()));
        }
        assertEquals(16, shard.fibers.length);
    }

    @Test
    void anArrayThatStayedTooLongIsShortenedAtTheNextPowerOfTwo() {
        assertEquals(256, Shard.fitting(256, 65));
        assertEquals(128, Shard.fitting(256, 64));
        assertEquals(256, Shard.fitting(256, 128));
        assertEquals(256, Shard.fitting(256, 63)); // there was no memory at 64
        assertEquals(64, Shard.fitting(256, 32));
        assertEquals(16, Shard.fitting(256, 8));
        assertEquals(16, Shard.fitting(256, 0));
        assertEquals(16, Shard.fitting(16, 4));
        assertEquals(16, Shard.fitting(16, 0));
    }

    @Test
    void theShardDoesAsASet() {
        Random chance = new Random(7);
        List<Fiber> model = new ArrayList<>();
        for (int step = 0; step < 4_000; step++) {
            boolean grows = chance.nextInt(800) > step % 800; // fills and empties
            if (model.isEmpty() || grows) {
                model.addAll(added(1));
            } else {
                remove(model.remove(chance.nextInt(model.size())));
            }
            assertEquals(new HashSet<>(model), new HashSet<>(listed()));
            assertEquals(model.size(), shard.size());
            for (Fiber f : model) {
                assertEquals(3, f.shard);
            }
        }
    }
}
