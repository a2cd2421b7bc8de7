package magnetar.check;

import static magnetar.check.Support.require;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.park.Fibers;
import magnetar.kernel.park.HandOff;
import magnetar.kernel.park.Peek;
import magnetar.kernel.park.World;

/** One carrier works while the others rest: nobody stays behind in their queues, and they come back when they are needed. All need hand-off. */
final class RestingCarriers {
    private RestingCarriers() {}

    private static boolean someRest() {
        return HandOff.restingCarriers() > 0;
    }

    /** Eight pairs answer each other on two carriers. While one of those rests nobody lies in its queue; and all end. */
    static void leaveNobody() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        for (int i = 0; i < 8; i++) {
            Life.answerEachOther(stop::get);
        }
        for (int round = 0; round < 4; round++) {
            Support.until("a carrier rests", 30, RestingCarriers::someRest);
            require(!Peek.isLeftBehind(), "somebody lies in the queue of a carrier that rests");
            Support.until("it comes back", 30, () -> !someRest());
        }
        stop.set(true);
        Support.until("the pairs have ended", () -> Fibers.count() == 0);
    }

    /** While the other of two carriers rests, a fiber wakes another and computes until that has run. When all have ended nobody rests. */
    static void comeBack() throws Exception {
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

    /** Two answer each other until a carrier rests, and not for a trial; one of them does this then. */
    private static void whileOneRests(Runnable what) {
        AtomicBoolean done = new AtomicBoolean();
        Life.answerEachOther(() -> {
            if (someRest() && Peek.isSettledOnOne() && !done.get()) {
                what.run();
                done.set(true);
            }
            return done.get();
        });
        Support.until("a carrier has rested, and the two have ended", 60, () -> done.get() && Fibers.count() == 0);
    }

    /** While the other of two carriers rests, a program takes one away: whoever rests is let go all the same. */
    static void areFewer() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        AtomicInteger before = new AtomicInteger();
        Life.answerEachOther(() -> {
            if (before.get() == 0 && someRest() && Peek.isSettledOnOne()) {
                before.set(Peek.setCarriers(1));
            }
            return stop.get();
        });
        Support.until("one is taken away while it rests", 60, () -> before.get() > 0);
        Support.until("nobody rests", () -> !someRest());
        Peek.setCarriers(before.get());
        stop.set(true);
        Support.until("the two have ended", () -> Fibers.count() == 0);
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
     * Two pairs answer each other on two of three carriers, and a fiber computes on the third. One of the two, which would have to run whom that wakes, rests in trials only: at
     * fewer than half of ten thousand turns that are looked at.
     */
    static void seeStrangers() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        Thread computes = Support.fiber(World.REAL, () -> {
            while (!stop.get()) {
                Thread.onSpinWait();
            }
        });
        AtomicInteger turns = new AtomicInteger();
        AtomicInteger rested = new AtomicInteger();
        Life.answerEachOther(stop::get);
        Life.answerEachOther(() -> {
            if (turns.incrementAndGet() % 500 == 0 && someRest()) {
                rested.incrementAndGet();
            }
            return stop.get();
        });
        Support.until("the two have had five million turns", 60, () -> turns.get() >= 5_000_000);
        stop.set(true);
        Support.join(computes);
        require(rested.get() < 5_000, "a carrier rested at " + rested.get() + " of 10,000 turns while another computed");
        Support.until("all have ended", () -> Fibers.count() == 0);
    }
}
