package magnetar.kernel.time;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import org.junit.jupiter.api.Test;

class DurationsTest {
    private static final long INFINITE = Long.MAX_VALUE;

    private static String refusal(Object duration) {
        return assertThrows(IllegalArgumentException.class, () -> Durations.nanos(duration)).getMessage();
    }

    @Test
    void aWholeNumberIsMilliseconds() {
        assertEquals(0, Durations.nanos(0));
        assertEquals(3_000_000, Durations.nanos(3));
        assertEquals(3_000_000, Durations.nanos(3L));
        assertEquals(3_000_000, Durations.nanos((short) 3));
        assertEquals(3_000_000, Durations.nanos((byte) 3));
    }

    @Test
    void aLargeWholeNumberKeepsItsLastDigit() {
        assertEquals(9_007_199_254_741_000_000L, Durations.nanos(9_007_199_254_741L));
        assertEquals(9_223_372_036_853_000_000L, Durations.nanos(9_223_372_036_853L));
        assertEquals(2_147_483_647_000_000L, Durations.nanos(Integer.MAX_VALUE));
    }

    @Test
    void aFractionOfAMillisecondCounts() {
        assertEquals(1_500_000, Durations.nanos(1.5));
        assertEquals(500_000, Durations.nanos(0.5f));
        assertEquals(2_250_000, Durations.nanos(new BigDecimal("2.25")));
        assertEquals(7_000_000, Durations.nanos(BigInteger.valueOf(7)));
    }

    @Test
    void aNumberThatIsTooLargeToCountIsNoLimit() {
        assertEquals(INFINITE, Durations.nanos(9_223_372_036_854L));
        assertEquals(INFINITE, Durations.nanos(Long.MAX_VALUE));
        assertEquals(INFINITE, Durations.nanos(1e300));
        assertEquals(INFINITE, Durations.nanos(Double.POSITIVE_INFINITY));
    }

    @Test
    void aDurationIsItsNanoseconds() {
        assertEquals(0, Durations.nanos(Duration.ZERO));
        assertEquals(1, Durations.nanos(Duration.ofNanos(1)));
        assertEquals(INFINITE - 1, Durations.nanos(Duration.ofNanos(INFINITE - 1)));
    }

    @Test
    void aDurationThatIsTooLongToCountIsNoLimit() {
        assertEquals(INFINITE, Durations.nanos(Duration.ofNanos(INFINITE)));
        assertEquals(INFINITE, Durations.nanos(Duration.ofNanos(INFINITE).plusNanos(1)));
        assertEquals(INFINITE, Durations.nanos(Duration.ofSeconds(INFINITE)));
    }

    @Test
    void nullIsNoDuration() {
        assertEquals("A duration is a number of milliseconds from 0 up, a java.time.Duration or :infinity; this is null.", refusal(null));
    }

    @Test
    void infinityIsNoLimit() {
        assertEquals(INFINITE, Durations.nanos(new Object() {
            @Override
            public String toString() {
                return ":infinity";
            }
        }));
    }

    @Test
    void whatIsNegativeOrOfAnotherKindIsRefused() {
        assertEquals("A duration is a number of milliseconds from 0 up, a java.time.Duration or :infinity; this is -1 of java.lang.Long.",
                refusal(-1L));
        refusal(-0.5);
        refusal(Double.NaN);
        refusal(Duration.ofNanos(-1));
        refusal(Duration.ofSeconds(Long.MIN_VALUE)); // toNanos throws for it
        refusal(":infinity");
        refusal(new Object());
    }

    @Test
    void aDeadlineIsAnInstant() {
        assertEquals(12, Durations.deadline(7, 5));
        assertEquals(5, Durations.deadline(-5, 10));
        assertEquals(7, Durations.deadline(7, 0));
    }

    @Test
    void aDeadlineThatIsTooFarToCountIsNone() {
        assertEquals(INFINITE, Durations.deadline(7, INFINITE));
        assertEquals(INFINITE, Durations.deadline(-5, INFINITE));
        assertEquals(INFINITE, Durations.deadline(7, INFINITE - 1));
        assertEquals(INFINITE - 1, Durations.deadline(0, INFINITE - 1));
    }
}
