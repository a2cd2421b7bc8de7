package magnetar.lincheck;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.IntPredicate;
import magnetar.kernel.process.Box;
import org.jetbrains.lincheck.datastructures.IntGen;
import org.jetbrains.lincheck.datastructures.Operation;
import org.jetbrains.lincheck.datastructures.Param;
import org.jetbrains.lincheck.datastructures.Validate;

/**
 * Mailboxes of each kind: several threads send, one receives selectively, waits and gives up, and one closes.
 *
 * <p>The model does not say which of several senders wakes the owner. A sender that has taken the waiter out,
 * and is about to claim it, may be overtaken by others. At the end the owner must not sleep on.
 */
public final class Mailboxes {
    private Mailboxes() {}

    /** The operations. A subclass adds the bound. Two operations of the owner never run at the same time. */
    @Param(name = "value", gen = IntGen.class, conf = "1:4")
    public abstract static class Subject {
        private final Box box;

        Subject(Box box) {
            this.box = box;
        }

        @Operation
        public String push(@Param(name = "value") int value) {
            return box.push(value);
        }

        @Operation
        public String signal(@Param(name = "value") int value) {
            return box.signal(-value);
        }

        @Operation
        public void close() {
            box.close();
        }

        @Operation(nonParallelGroup = "owner")
        public String take() {
            return String.valueOf(box.take(m -> true));
        }

        @Operation(nonParallelGroup = "owner")
        public String takeEven() {
            return String.valueOf(box.take(m -> m % 2 == 0));
        }

        @Operation(nonParallelGroup = "owner")
        public String await() {
            return box.await();
        }

        @Operation(nonParallelGroup = "owner")
        public void giveUp() {
            box.giveUp();
        }

        @Operation(nonParallelGroup = "owner")
        public int waiting() {
            return box.waiting();
        }

        @Validate
        public void nobodySleepsOn() {
            box.check();
        }
    }

    /** The same operations, one at a time. */
    public abstract static class Specification {
        private final int capacity;
        private final boolean dropsOld;
        private final List<Integer> list = new ArrayList<>();
        private final List<Integer> inbox = new ArrayList<>();
        private boolean closed;

        Specification(int capacity, boolean dropsOld) {
            this.capacity = capacity;
            this.dropsOld = dropsOld;
        }

        public String push(int value) {
            if (!closed && list.size() + inbox.size() >= capacity && !(dropsOld && (dropFrom(list) || dropFrom(inbox)))) {
                return "full";
            }
            return add(value);
        }

        private static boolean dropFrom(List<Integer> messages) {
            for (Iterator<Integer> i = messages.iterator(); i.hasNext(); ) {
                if (i.next() > 0) {
                    i.remove();
                    return true;
                }
            }
            return false;
        }

        public String signal(int value) {
            return add(-value);
        }

        private String add(int message) {
            if (closed) {
                return "closed";
            }
            inbox.add(message);
            return "added";
        }

        public void close() {
            closed = true;
            inbox.clear();
            list.clear();
        }

        public String take() {
            return take(m -> true);
        }

        public String takeEven() {
            return take(m -> m % 2 == 0);
        }

        private String take(IntPredicate fits) {
            Integer taken = takeFrom(list, fits);
            if (taken == null) {
                list.addAll(inbox);
                inbox.clear();
                taken = takeFrom(list, fits);
            }
            return String.valueOf(taken);
        }

        private static Integer takeFrom(List<Integer> messages, IntPredicate fits) {
            for (Iterator<Integer> i = messages.iterator(); i.hasNext(); ) {
                int m = i.next();
                if (fits.test(m)) {
                    i.remove();
                    return m;
                }
            }
            return null;
        }

        public String await() {
            return closed || !inbox.isEmpty() ? "ready" : "waits";
        }

        public void giveUp() {}

        public int waiting() {
            return inbox.size();
        }
    }

    public static final class Open extends Subject {
        public Open() {
            super(Box.open());
        }
    }

    public static final class OpenModel extends Specification {
        public OpenModel() {
            super(Integer.MAX_VALUE, false);
        }
    }

    public static final class Blocking extends Subject {
        public Blocking() {
            super(Box.bounded(1, "BLOCK"));
        }
    }

    public static final class DroppingNew extends Subject {
        public DroppingNew() {
            super(Box.bounded(1, "DROP_NEW"));
        }
    }

    public static final class Failing extends Subject {
        public Failing() {
            super(Box.bounded(1, "FAIL"));
        }
    }

    /** A sender sees the same of a full mailbox, whether it would wait, fail or drop. */
    public static final class RefusingModel extends Specification {
        public RefusingModel() {
            super(1, false);
        }
    }

    public static final class DroppingOld extends Subject {
        public DroppingOld() {
            super(Box.bounded(2, "DROP_OLD"));
        }
    }

    public static final class DroppingOldModel extends Specification {
        public DroppingOldModel() {
            super(2, true);
        }
    }
}
