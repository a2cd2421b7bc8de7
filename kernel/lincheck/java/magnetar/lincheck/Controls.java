package magnetar.lincheck;

import java.util.ArrayDeque;
import java.util.Deque;
import org.jetbrains.lincheck.datastructures.IntGen;
import org.jetbrains.lincheck.datastructures.Operation;
import org.jetbrains.lincheck.datastructures.Param;
import org.jetbrains.lincheck.datastructures.Validate;

/**
 * Controls: channels with a defect. Lincheck has to find it, or its silence about the others proves nothing.
 */
public final class Controls {
    private Controls() {}

    /** A fixed buffer of one value that checks for room, and puts the value, under two locks. */
    @Param(name = "value", gen = IntGen.class, conf = "1:3")
    public static final class ForgetfulFixed {
        private final Deque<Integer> values = new ArrayDeque<>();
        private volatile boolean closed;

        @Operation
        public String offer(@Param(name = "value") int value) {
            if (closed) {
                return "false";
            }
            synchronized (this) {
                if (!values.isEmpty()) {
                    return "PENDING";
                }
            }
            synchronized (this) {
                values.add(value);
                return "true";
            }
        }

        @Operation
        public synchronized String poll() {
            return values.isEmpty() ? closed ? "null" : "PENDING" : String.valueOf(values.poll());
        }

        @Operation
        public void close() {
            closed = true;
        }
    }

    /**
     * A rendezvous that hands a value to a waiting take without a claim, so that two puts may find the same
     * take.
     */
    @Param(name = "value", gen = IntGen.class, conf = "1:3")
    public static final class Unclaimed {
        private volatile Model.Party waiting;

        @Operation
        public String take() {
            waiting = new Model.Party();
            return "PENDING";
        }

        @Operation
        public String offer(@Param(name = "value") int value) {
            Model.Party taker = waiting;
            if (taker == null) {
                return "PENDING";
            }
            waiting = null;
            return "true";
        }
    }

    /** A mailbox whose owner checks for messages, and registers its waiter, in two steps. */
    @Param(name = "value", gen = IntGen.class, conf = "1:3")
    public static final class Deaf {
        private final Deque<Integer> inbox = new ArrayDeque<>();
        private boolean waits;

        @Operation
        public synchronized String push(@Param(name = "value") int value) {
            inbox.add(value);
            waits = false;
            return "added";
        }

        @Operation(nonParallelGroup = "owner")
        public String await() {
            synchronized (this) {
                waits = false;
                if (!inbox.isEmpty()) {
                    return "ready";
                }
            }
            synchronized (this) {
                waits = true;
                return "waits";
            }
        }

        @Validate
        public void nobodySleepsOn() {
            if (waits && !inbox.isEmpty()) {
                throw new AssertionError("the owner sleeps on");
            }
        }
    }
}
