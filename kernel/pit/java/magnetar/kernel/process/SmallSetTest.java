package magnetar.kernel.process;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class SmallSetTest {
    @Test
    void noSmallSetIsAnEmptyOne() {
        assertTrue(SmallSet.isEmpty(null));
        assertFalse(SmallSet.contains(null, "a"));
        assertFalse(SmallSet.remove(null, "a"));
        assertEquals(List.of(), SmallSet.list(null));
        assertNull(SmallSet.slim((SmallSet<String>) null));
    }

    @Test
    void aSmallSetThatHasHeldNothingIsEmpty() {
        SmallSet<String> set = new SmallSet<>();
        assertTrue(SmallSet.isEmpty(set));
        assertEquals(List.of(), SmallSet.list(set));
        assertFalse(SmallSet.contains(set, "a"));
        assertFalse(SmallSet.remove(set, "a"));
        assertNull(SmallSet.slim(set));
    }

    @Test
    void itHoldsOne() {
        SmallSet<String> set = SmallSet.with(null, "a");
        assertFalse(SmallSet.isEmpty(set));
        assertEquals(List.of("a"), SmallSet.list(set));
        assertTrue(SmallSet.contains(set, "a"));
        assertFalse(SmallSet.contains(set, "b"));
        assertSame(set, SmallSet.slim(set));
        assertFalse(set.add("a"));
        assertEquals(List.of("a"), SmallSet.list(set));
        assertFalse(SmallSet.remove(set, "b"));
        assertEquals(List.of("a"), SmallSet.list(set));
        assertTrue(SmallSet.remove(set, "a"));
        assertTrue(SmallSet.isEmpty(set));
        assertFalse(SmallSet.remove(set, "a"));
        assertTrue(set.add("b"));
        assertEquals(List.of("b"), SmallSet.list(set));
    }

    @Test
    void itHoldsMoreInTheOrderInWhichTheyCame() {
        SmallSet<String> set = SmallSet.with(null, "c");
        assertSame(set, SmallSet.with(set, "a"));
        assertTrue(set.add("b"));
        assertFalse(set.add("a"));
        assertFalse(set.add("c"));
        assertEquals(List.of("c", "a", "b"), SmallSet.list(set));
        assertTrue(SmallSet.contains(set, "b"));
        assertFalse(SmallSet.contains(set, "d"));
        assertFalse(SmallSet.isEmpty(set));
        assertTrue(SmallSet.remove(set, "a"));
        assertFalse(SmallSet.remove(set, "a"));
        assertEquals(List.of("c", "b"), SmallSet.list(set));
    }

    @Test
    void itIsEmptyAgainWhenAllAreOut() {
        SmallSet<String> set = SmallSet.with(SmallSet.with(null, "a"), "b");
        assertTrue(SmallSet.remove(set, "a"));
        assertSame(set, SmallSet.slim(set));
        assertTrue(SmallSet.remove(set, "b"));
        assertTrue(SmallSet.isEmpty(set));
        assertNull(SmallSet.slim(set));
        assertEquals(List.of(), SmallSet.list(set));
        assertTrue(set.add("c"));
        assertEquals(List.of("c"), SmallSet.list(set));
    }

    @Test
    void theListOfItIsACopy() {
        SmallSet<String> set = SmallSet.with(SmallSet.with(null, "a"), "b");
        List<String> before = SmallSet.list(set);
        set.remove("a");
        assertEquals(List.of("a", "b"), before);
    }
}
