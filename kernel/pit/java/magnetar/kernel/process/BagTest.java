package magnetar.kernel.process;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class BagTest {
    @Test
    void noBagIsAnEmptyOne() {
        assertTrue(Bag.isEmpty(null));
        assertFalse(Bag.contains(null, "a"));
        assertFalse(Bag.remove(null, "a"));
        assertEquals(List.of(), Bag.list(null));
        assertNull(Bag.slim((Bag<String>) null));
    }

    @Test
    void aBagThatHasHeldNothingIsEmpty() {
        Bag<String> bag = new Bag<>();
        assertTrue(Bag.isEmpty(bag));
        assertEquals(List.of(), Bag.list(bag));
        assertFalse(Bag.contains(bag, "a"));
        assertFalse(Bag.remove(bag, "a"));
        assertNull(Bag.slim(bag));
    }

    @Test
    void itHoldsOne() {
        Bag<String> bag = Bag.with(null, "a");
        assertFalse(Bag.isEmpty(bag));
        assertEquals(List.of("a"), Bag.list(bag));
        assertTrue(Bag.contains(bag, "a"));
        assertFalse(Bag.contains(bag, "b"));
        assertSame(bag, Bag.slim(bag));
        assertFalse(bag.add("a"));
        assertEquals(List.of("a"), Bag.list(bag));
        assertFalse(Bag.remove(bag, "b"));
        assertEquals(List.of("a"), Bag.list(bag));
        assertTrue(Bag.remove(bag, "a"));
        assertTrue(Bag.isEmpty(bag));
        assertFalse(Bag.remove(bag, "a"));
        assertTrue(bag.add("b"));
        assertEquals(List.of("b"), Bag.list(bag));
    }

    @Test
    void itHoldsMoreInTheOrderInWhichTheyCame() {
        Bag<String> bag = Bag.with(null, "c");
        assertSame(bag, Bag.with(bag, "a"));
        assertTrue(bag.add("b"));
        assertFalse(bag.add("a"));
        assertFalse(bag.add("c"));
        assertEquals(List.of("c", "a", "b"), Bag.list(bag));
        assertTrue(Bag.contains(bag, "b"));
        assertFalse(Bag.contains(bag, "d"));
        assertFalse(Bag.isEmpty(bag));
        assertTrue(Bag.remove(bag, "a"));
        assertFalse(Bag.remove(bag, "a"));
        assertEquals(List.of("c", "b"), Bag.list(bag));
    }

    @Test
    void itIsEmptyAgainWhenAllAreOut() {
        Bag<String> bag = Bag.with(Bag.with(null, "a"), "b");
        assertTrue(Bag.remove(bag, "a"));
        assertSame(bag, Bag.slim(bag));
        assertTrue(Bag.remove(bag, "b"));
        assertTrue(Bag.isEmpty(bag));
        assertNull(Bag.slim(bag));
        assertEquals(List.of(), Bag.list(bag));
        assertTrue(bag.add("c"));
        assertEquals(List.of("c"), Bag.list(bag));
    }

    @Test
    void theListOfItIsACopy() {
        Bag<String> bag = Bag.with(Bag.with(null, "a"), "b");
        List<String> before = Bag.list(bag);
        bag.remove("a");
        assertEquals(List.of("a", "b"), before);
    }
}
