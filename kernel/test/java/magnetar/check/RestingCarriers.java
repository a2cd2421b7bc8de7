package magnetar.check;

import static magnetar.check.Support.require;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.stream.IntStream;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.park.Fibers;
import magnetar.kernel.park.HandOff;
import magnetar.kernel.park.Peek;
import magnetar.kernel.park.World;

/** One carrier works while the others rest: nobody stays behind in their queues, and they come back when they are needed. What needs hand-off passes where it is off. */
final class RestingCarriers {
    private static final int PAIRS = 8;
    private static final int LONGER_THAN_A_TRIAL = 100_000; // turns

    private RestingCarriers() {}

    private static boolean someRest() {
        return HandOff.restingCarriers() > 0;
    }

    /**
     * Eight pairs answer each other on two carriers. While one of those rests nobody lies in its queue, and all pairs go on: none has no turn while another has two hundred.
     */
    static void leaveNobody() throws Exception {
        if (!HandOff.isOn()) {
            return;
        }
        AtomicIntegerArray turns = new AtomicIntegerArray(PAIRS);
        AtomicBoolean stop = new AtomicBoolean();
        for (int i = 0; i < PAIRS; i++) {
            int pair = i;
            Life.answerEachOther(() -> {
                turns.incrementAndGet(pair);
                return stop.get();
            });
        }
        for (int round = 0; round < 4; round++) {
            Support.until("a carrier rests until a pair has two hundred turns", 30, () -> someRest() && allGoOn(turns));
            Support.until("it comes back", () -> !someRest());
        }
        stop.set(true);
        Support.until("the pairs have ended", () -> Fibers.count() == 0);
    }

    /** False if it could not be seen, for nobody rested any more. */
    private static boolean allGoOn(AtomicIntegerArray turns) {
        int[] before = IntStream.range(0, PAIRS).map(turns::get).toArray();
        while (someRest()) {
            require(Peek.tasksOfResting() == 0, "somebody lies in the queue of a carrier that rests");
            int[] more = IntStream.range(0, PAIRS).map(i -> turns.get(i) - before[i]).toArray();
            if (IntStream.of(more).max().getAsInt() >= 200) {
                require(IntStream.of(more).min().getAsInt() > 0, "a pair had " + IntStream.of(more).max().getAsInt() + " turns while another had none");
                return true;
            }
            Thread.onSpinWait();
        }
        return false;
    }

    /** While the other of two carriers rests, a fiber wakes another and computes until that has run. When all have ended nobody rests. */
    static void comeBack() throws Exception {
        if (!HandOff.isOn()) {
            return;
        }
        for (int i = 0; i < 3; i++) {
            Channel<Integer> c = Channel.rendezvous();
            AtomicBoolean woken = new AtomicBoolean();
            Thread sleeper = Support.fiber(World.REAL, () -> {
                c.receive();
                woken.set(true);
            });
            Support.until("it waits", () -> Support.parked(sleeper));
            whileOneRests(() -> compute(c, woken));
            Support.join(sleeper);
            whileOneRests(() -> {});
            Support.until("nobody rests when nothing is left to do", () -> !someRest());
        }
    }

    /** Two answer each other until a carrier has rested for longer than a trial takes; one of them does this then. */
    private static void whileOneRests(Runnable what) {
        AtomicInteger rested = new AtomicInteger();
        Life.answerEachOther(() -> {
            if (!someRest()) {
                rested.set(0);
            } else if (rested.incrementAndGet() == LONGER_THAN_A_TRIAL) {
                what.run();
            }
            return rested.get() == LONGER_THAN_A_TRIAL;
        });
        Support.until("a carrier has rested, and the two have ended", 30, () -> rested.get() == LONGER_THAN_A_TRIAL && Fibers.count() == 0);
    }

    private static void compute(Channel<Integer> c, AtomicBoolean woken) {
        try {
            c.send(1);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
        while (!woken.get()) {
            Thread.onSpinWait();
        }
    }

    /**
     * Two answer each other on one of three carriers, and another computes on the second. The third, which would have to run whom that wakes, rests in trials only: at fewer
     * than half of ten thousand turns of the two that are looked at.
     */
    static void seeStrangers() throws Exception {
        if (!HandOff.isOn()) {
            return;
        }
        AtomicBoolean stop = new AtomicBoolean();
        Thread computes = Support.fiber(World.REAL, () -> {
            while (!stop.get()) {
                Thread.onSpinWait();
            }
        });
        AtomicInteger turns = new AtomicInteger();
        AtomicInteger rested = new AtomicInteger();
        Life.answerEachOther(() -> {
            int n = turns.incrementAndGet();
            if (n % 1_000 == 0 && someRest()) {
                rested.incrementAndGet();
            }
            return n == 10_000_000;
        });
        Support.until("the two have had ten million turns", 30, () -> turns.get() == 10_000_000);
        stop.set(true);
        Support.join(computes);
        require(rested.get() < 5_000, "a carrier rested at " + rested.get() + " of 10,000 turns while another computed");
    }
}
