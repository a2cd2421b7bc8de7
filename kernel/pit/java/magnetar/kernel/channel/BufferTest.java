package magnetar.kernel.channel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Random;
import magnetar.kernel.fiber.Fiber;
import org.junit.jupiter.api.Test;

/** The buffers of the kernel, by what they do. */
class BufferTest {
    private static Buffer holding(Buffer buffer, int n) {
        for (int i = 0; i < n; i++) {
            buffer.insert(i);
        }
        return buffer;
    }

    private static List<Object> all(Buffer buffer) {
        List<Object> iterated = new ArrayList<>(buffer);
        assertEquals(Arrays.asList(buffer.snapshot()), iterated);
        assertEquals(buffer.size(), iterated.size());
        return iterated;
    }

    private static List<Object> drained(Buffer buffer) {
        List<Object> drained = new ArrayList<>();
        while (buffer.size() > 0) {
            drained.add(buffer.remove());
        }
        return drained;
    }

    @Test
    void eachKindSaysHowMuchItHoldsAndWhetherAPutWaits() {
        assertEquals(3, Buffer.fixed(3).capacity());
        assertEquals(3, Buffer.dropping(3).capacity());
        assertEquals(3, Buffer.sliding(3).capacity());
        assertEquals(-1, Buffer.unbounded().capacity());
        assertEquals(1, Buffer.promise().capacity());
        assertFalse(Buffer.fixed(3).isUnblocking());
        for (Buffer b : List.of(Buffer.dropping(3), Buffer.sliding(3), Buffer.unbounded(), Buffer.promise())) {
            assertTrue(b.isUnblocking());
            assertFalse(holding(b, 5).isFull());
        }
    }

    @Test
    void noKindRunsCodeOfTheProgram() {
        for (Buffer b : List.of(Buffer.fixed(1), Buffer.dropping(1), Buffer.sliding(1), Buffer.unbounded(), Buffer.promise())) {
            assertFalse(b.runsUserCode());
            assertSame(b, b.original());
            b.close();
        }
    }

    @Test
    void whoWillFinishTheChannelIsForgottenAtItsClosing() {
        Buffer.Fixed b = (Buffer.Fixed) Buffer.fixed(1);
        b.finisher = Fiber.current();
        b.close();
        assertNull(b.finisher);
    }

    @Test
    void aValueMayPassByUnlessTheBufferDropsOrKeepsIt() {
        assertTrue(Buffer.fixed(1).isTransparent());
        assertTrue(Buffer.dropping(1).isTransparent());
        assertTrue(Buffer.sliding(1).isTransparent());
        assertTrue(Buffer.unbounded().isTransparent());
        assertFalse(Buffer.dropping(0).isTransparent());
        assertFalse(Buffer.sliding(0).isTransparent());
        assertFalse(Buffer.promise().isTransparent());
    }

    @Test
    void aBufferOfTheProgramLetsValuesPassByUnlessItSaysOtherwise() {
        Buffer b = new Buffer() {
            @Override
            public boolean isFull() {
                return false;
            }

            @Override
            public void insert(Object value) {}

            @Override
            public Object remove() {
                return null;
            }

            @Override
            public int size() {
                return 0;
            }

            @Override
            public int capacity() {
                return 0;
            }

            @Override
            public Object[] snapshot() {
                return new Object[0];
            }
        };
        assertTrue(b.isTransparent());
        assertTrue(b.isUnblocking());
    }

    @Test
    void aCapacityThatMakesNoSenseIsRefused() {
        assertEquals("A fixed buffer holds at least 1 value; this asks for 0.",
                assertThrows(IllegalArgumentException.class, () -> Buffer.fixed(0)).getMessage());
        assertEquals("A buffer holds 0 or more values; this asks for -1.",
                assertThrows(IllegalArgumentException.class, () -> Buffer.dropping(-1)).getMessage());
        assertThrows(IllegalArgumentException.class, () -> Buffer.sliding(-1));
        assertEquals(1, Buffer.fixed(1).capacity());
        assertEquals(0, Buffer.sliding(0).capacity());
    }

    @Test
    void aFixedOneIsFullAtItsCapacity() {
        for (int capacity : new int[] {1, 2, 3, 7, 8, 9, 40}) {
            Buffer b = Buffer.fixed(capacity);
            for (int i = 0; i < capacity; i++) {
                assertFalse(b.isFull());
                b.insert(i);
            }
            assertTrue(b.isFull());
            assertEquals(capacity, b.size());
            b.remove();
            assertFalse(b.isFull());
        }
        assertTrue(holding(Buffer.fixed(1), 2).isFull()); // a transducer may add more than there is room for
        assertTrue(holding(Buffer.fixed(1), 2).isTransparent());
    }

    @Test
    void whatIsAddedBeyondAFixedCapacityIsKept() {
        assertEquals(List.of(0, 1, 2, 3, 4), drained(holding(Buffer.fixed(2), 5)));
    }

    /** A transform may add any number of values to it. */
    @Test
    void aFixedOneOfOneValueKeepsWhatIsAddedBeyondInOrder() {
        Buffer b = Buffer.fixed(1);
        assertInstanceOf(Buffer.Fixed.class, b);
        assertEquals(1, b.capacity());
        assertFalse(b.isUnblocking());
        assertFalse(b.isFull());
        assertEquals(List.of(), all(b));
        b.insert("first");
        assertTrue(b.isFull());
        assertEquals(List.of("first"), all(b));
        b.insert("second");
        b.insert("third");
        assertEquals(List.of("first", "second", "third"), all(b));
        assertEquals("first", b.remove());
        assertTrue(b.isFull());
        b.insert("fourth");
        assertEquals(List.of("second", "third", "fourth"), drained(b));
        assertFalse(b.isFull());
        assertEquals(List.of(), all(b));
        assertThrows(NoSuchElementException.class, b::remove);
        b.insert("fifth");
        b.insert("sixth");
        assertEquals(List.of("fifth", "sixth"), drained(b));
    }

    @Test
    void aFixedOneOfOneValueDoesAsAQueueBeyondItsCapacity() {
        Random chance = new Random(6);
        Buffer b = Buffer.fixed(1);
        ArrayDeque<Object> model = new ArrayDeque<>();
        for (int step = 0; step < 1_000; step++) {
            if (model.isEmpty() || chance.nextInt(100) > step % 100) {
                model.add(step);
                b.insert(step);
            } else {
                assertEquals(model.poll(), b.remove());
            }
            assertEquals(List.copyOf(model), all(b));
            assertEquals(!model.isEmpty(), b.isFull());
        }
    }

    @Test
    void aDroppingOneKeepsTheOldest() {
        assertEquals(List.of(0, 1), all(holding(Buffer.dropping(2), 5)));
        assertEquals(List.of(), all(holding(Buffer.dropping(0), 5)));
        Buffer b = holding(Buffer.dropping(2), 3);
        assertEquals(0, b.remove());
        b.insert(9);
        assertEquals(List.of(1, 9), drained(b));
    }

    @Test
    void aSlidingOneKeepsTheNewest() {
        assertEquals(List.of(0, 1), all(holding(Buffer.sliding(2), 2)));
        assertEquals(List.of(3, 4), all(holding(Buffer.sliding(2), 5)));
        assertEquals(List.of(4), all(holding(Buffer.sliding(1), 5)));
        assertEquals(List.of(), all(holding(Buffer.sliding(0), 5)));
    }

    @Test
    void anEmptyOneHasNothingToRemove() {
        for (int capacity : new int[] {1, 2}) {
            Buffer b = Buffer.fixed(capacity);
            assertEquals("The buffer is empty.", assertThrows(NoSuchElementException.class, b::remove).getMessage());
            b.insert("first");
            b.remove();
            assertThrows(NoSuchElementException.class, b::remove);
            assertEquals(List.of(), all(b));
        }
    }

    @Test
    void aPromiseKeepsItsFirstValue() {
        Buffer b = Buffer.promise();
        assertEquals(List.of(), all(b));
        b.insert("first");
        b.insert("second");
        assertEquals(List.of("first"), all(b));
        assertEquals("first", b.remove());
        assertEquals("first", b.remove());
        assertEquals(1, b.size());
    }

    @Test
    void aRingDoesAsAQueue() {
        Random chance = new Random(5);
        for (Buffer b : List.of(Buffer.unbounded(), Buffer.fixed(1), Buffer.fixed(5), Buffer.fixed(200))) {
            ArrayDeque<Object> model = new ArrayDeque<>();
            for (int step = 0; step < 2_000; step++) {
                boolean grows = chance.nextInt(400) > step % 400; // fills and empties
                if (model.isEmpty() || grows && (b.capacity() < 0 || model.size() < b.capacity())) {
                    model.add(step);
                    b.insert(step);
                } else {
                    assertEquals(model.poll(), b.remove());
                }
                assertEquals(List.copyOf(model), all(b));
            }
        }
    }

    @Test
    void aValueThatWasRemovedIsNotHeld() {
        for (Buffer b : List.of(Buffer.fixed(4), Buffer.fixed(1))) {
            WeakReference<Object> removed = addAndRemove(b);
            for (int i = 0; i < 50 && removed.get() != null; i++) {
                System.gc();
            }
            assertTrue(removed.get() == null, "the buffer holds a value that it has handed out");
            Reference.reachabilityFence(b);
        }
    }

    private static WeakReference<Object> addAndRemove(Buffer b) {
        WeakReference<Object> value = new WeakReference<>(new Object());
        b.insert(value.get());
        b.remove();
        return value;
    }
}
