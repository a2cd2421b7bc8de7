package magnetar.check;

import static magnetar.check.Support.require;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Parked;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.park.Waiter;
import magnetar.kernel.park.Waiter.Pairing;

/** The claim alone: two threads race for it in every combination, thousands of times. */
final class Claims {
    private Claims() {}

    /** Two threads meet again and again, for two seconds at most; ends when the other has failed. */
    static final class Meeting {
        private static final int ROUNDS = 30_000;
        private static final int LEAST = 100;

        private final long end = System.nanoTime() + Integer.getInteger("magnetar.check.meeting", 2_000) * 1_000_000L;
        private final AtomicInteger arrived = new AtomicInteger();
        private volatile int last = ROUNDS;

        /** True if the round takes place. Both threads get the same result, if they meet in each round. */
        boolean more(int round) {
            if (round >= last) {
                return false;
            }
            if (round > LEAST && System.nanoTime() > end) {
                last = round + 1;
            }
            return true;
        }

        void await() {
            int turn = arrived.getAndIncrement() / 2;
            for (int n = 1; arrived.get() / 2 == turn; n++) {
                if (n % 500 == 0) {
                    require(Support.failure == null, "the other failed: " + Support.failure);
                    Thread.yield();
                }
                Thread.onSpinWait();
            }
        }
    }

    private static final class Plain extends Waiter {
        private final long id;

        Plain(long id) {
            this.id = id;
        }

        @Override
        public long id() {
            return id;
        }

        @Override
        public void complete(Object source, Object result) {}
    }

    /** Three waiters of one round, and which of them each thread claimed. */
    private static final class Round {
        final Waiter a = new Plain(1);
        final Waiter b = new Plain(2);
        final Waiter c = new Plain(3);

        // Each is written by one thread before they meet: a bit for each of a, b and c that it claimed.
        int first;
        int second;
    }

    /**
     * Two threads claim one or pair two of three waiters. No waiter is claimed by both threads, and one
     * thread succeeds.
     */
    static void pairs() throws Exception {
        Simulated.simulate(true);
        Environment noisy = new Races.Dozing();
        AtomicReference<Round> round = new AtomicReference<>();
        Meeting meeting = new Meeting();
        Thread second = Support.platform(noisy, () -> {
            for (int i = 0; meeting.more(i); i++) {
                meeting.await();
                Round r = round.get();
                r.second = attempt(r, i % 5);
                meeting.await();
            }
        });
        Thread first = Support.platform(noisy, () -> {
            for (int i = 0; meeting.more(i); i++) {
                Round r = new Round();
                round.set(r);
                meeting.await();
                r.first = pair(r.a, r.b, 3);
                meeting.await();
                judge(r, i % 5);
            }
        });
        Support.join(first);
        Support.join(second);
        Simulated.simulate(false);
    }

    private static int attempt(Round r, int how) {
        return switch (how) {
            case 0 -> pair(r.b, r.a, 3);
            case 1 -> r.b.claim() ? 2 : 0;
            case 2 -> r.a.claim() ? 1 : 0;
            case 3 -> pair(r.b, r.c, 6);
            default -> pair(r.c, r.b, 6);
        };
    }

    private static int pair(Waiter own, Waiter peer, int bits) {
        return Waiter.pair(own, peer) == Pairing.PAIRED ? bits : 0;
    }

    private static void judge(Round r, int how) {
        String what = "attempt " + how + ": the first thread got " + r.first + ", the second " + r.second;
        require((r.first & r.second) == 0, what + ": a waiter was claimed twice");
        require((r.first | r.second) != 0, what + ": each gave way to the other");
        int got = r.first | r.second;
        require(r.a.isUnclaimed() == ((got & 1) == 0) && r.b.isUnclaimed() == ((got & 2) == 0) && r.c.isUnclaimed() == ((got & 4) == 0),
                what + ": a waiter is open though claimed, or closed though nobody has it");
        require(!r.a.isUnclaimed() || r.a.claim(), what + ": an open claim stayed locked");
    }

    /**
     * A waiter times out or is interrupted while another thread claims it: either the wait ends, or the event
     * counts.
     */
    static void endings() throws Exception {
        Simulated.simulate(true);
        Environment noisy = new Races.Dozing();
        AtomicReference<Parked> waiting = new AtomicReference<>();
        AtomicReference<Thread> owner = new AtomicReference<>();
        AtomicInteger claimed = new AtomicInteger();
        AtomicInteger completed = new AtomicInteger();
        Meeting meeting = new Meeting();
        Thread events = Support.platform(noisy, () -> {
            for (int i = 0; meeting.more(i); i++) {
                meeting.await();
                if (i % 2 == 0) {
                    waiting.get().expire();
                } else {
                    owner.get().interrupt();
                }
                if (waiting.get().claim()) {
                    waiting.get().complete(null, i);
                    claimed.incrementAndGet();
                }
                meeting.await();
            }
        });
        owner.set(Support.platform(noisy, () -> {
            for (int i = 0; meeting.more(i); i++) {
                Parked p = new Parked(Fiber.current(), WaitReason.CHANNEL_TAKE, null);
                waiting.set(p);
                meeting.await();
                if (awaitQuietly(p)) {
                    completed.incrementAndGet();
                    require(p.result().equals(i), "round " + i + " brought " + p.result());
                }
                meeting.await();
                Thread.interrupted();
                require(claimed.get() == completed.get(),
                        "round " + i + ": " + claimed + " events were delivered, " + completed + " arrived");
            }
        }));
        Support.join(owner.get());
        Support.join(events);
        Simulated.simulate(false);
    }

    private static boolean awaitQuietly(Parked p) {
        try {
            return p.await();
        } catch (InterruptedException e) {
            return false;
        }
    }
}
