package magnetar.kernel.process;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Field;
import org.junit.jupiter.api.Test;

class PidTest {
    private static final Pid.Ended ENDED = new Pid.Ended("normal", 42);

    @Test
    void itSaysWhoItIs() {
        Pid pid = new Pid(2, 7, 9, "orders");
        assertEquals(2, pid.node());
        assertEquals(7, pid.serial());
        assertEquals(9, pid.creation());
        assertEquals("orders", pid.label());
        assertEquals("2.7.9", pid.text());
        assertEquals("#magnetar/pid \"2.7.9 orders\"", pid.toString());
        assertEquals("#magnetar/pid \"2.7.9\"", new Pid(2, 7, 9, null).toString());
        assertEquals(0, new Pid(7, 9, "orders").node());
    }

    @Test
    void equalPidsHaveNodeSerialAndCreationInCommon() {
        Pid pid = new Pid(2, 7, 9, "orders");
        assertEquals(pid, pid);
        assertEquals(pid, new Pid(2, 7, 9, null));
        assertEquals(pid.hashCode(), new Pid(2, 7, 9, null).hashCode());
        assertNotEquals(pid, new Pid(1, 7, 9, "orders"));
        assertNotEquals(pid, new Pid(2, 8, 9, "orders"));
        assertNotEquals(pid, new Pid(2, 7, 8, "orders"));
        assertFalse(pid.equals(null));
        assertNotEquals(pid, "2.7.9");
    }

    @Test
    void theyAreOrderedByNodeThenSerialThenCreation() {
        assertTrue(new Pid(1, 9, 9, null).compareTo(new Pid(2, 1, 1, null)) < 0);
        assertTrue(new Pid(2, 7, 9, null).compareTo(new Pid(2, 8, 1, null)) < 0);
        assertTrue(new Pid(2, 7, 9, null).compareTo(new Pid(2, 7, 10, null)) < 0);
        assertTrue(new Pid(2, 1, 1, null).compareTo(new Pid(1, 9, 9, null)) > 0);
        assertTrue(new Pid(2, 8, 1, null).compareTo(new Pid(2, 7, 9, null)) > 0);
        assertEquals(0, new Pid(2, 7, 9, null).compareTo(new Pid(2, 7, 9, "orders")));
    }

    @Test
    void theHashDependsOnAllThree() {
        int hash = new Pid(0, 7, 9, null).hashCode();
        assertEquals(Long.hashCode(7 * 0x9E3779B97F4A7C15L ^ 9), hash); // fixed: a simulation must repeat
        assertEquals(hash + 3, new Pid(3, 7, 9, null).hashCode());
    }

    @Test
    void itNamesItsProcessUntilThatEnds() {
        Pid pid = new Pid(7, 9, "orders");
        assertNull(pid.process());
        assertFalse(pid.isAlive());
        LocalProcess process = new Spawn.OnThread(pid, new OpenMailbox()); // enters itself into the pid
        assertSame(process, pid.process());
        assertTrue(pid.isAlive());
        assertNull(pid.ended());
        pid.recordEnd(ENDED);
        assertNull(pid.process());
        assertFalse(pid.isAlive());
        assertSame(ENDED, pid.ended());
    }

    @Test
    void aProcessThatExitsIsNotAliveThoughItIsThere() throws ReflectiveOperationException {
        Pid pid = new Pid(7, 9, "orders");
        LocalProcess process = new Spawn.OnThread(pid, new OpenMailbox());
        Field life = LocalProcess.class.getDeclaredField("life");
        life.setAccessible(true);
        life.setByte(process, (byte) 1); // EXITING
        assertSame(process, pid.process());
        assertFalse(pid.isAlive());
    }

    @Test
    void oneThatWasReadFromTextKnowsWhatTheOtherKnows() {
        Pid own = new Pid(7, 9, "orders");
        LocalProcess process = new Spawn.OnThread(own, new OpenMailbox());
        Pid read = new Pid(0, 7, 9, null);
        assertNull(read.process());
        assertFalse(read.isAlive());
        read.recognize(own);
        assertSame(process, read.process());
        assertTrue(read.isAlive());
        assertNull(read.ended());
        own.recordEnd(ENDED);
        assertNull(read.process());
        assertSame(ENDED, read.ended());
    }
}
