package magnetar.kernel.process;

import java.util.List;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Latch;
import magnetar.kernel.report.NoMemory;

/**
 * The parties to tell of a death, in this order: the things that the process owned, the linked processes, its
 * watchers, the processes it watched, and the threads that wait for its end.
 *
 * <p>Invariant: once {@link #announce} has begun, it tells each of them. If memory has run out it retries
 * until there is some, so it does not throw.
 */
record DeathNotice(Pid dead, Object why, List<Owned> owned, List<Pid> links, List<Monitor> watchers, List<Monitor> watching, Latch ended) {
    /** Tells all parties, outside of all locks. */
    void announce() {
        Simulated.note("dies", dead, why);
        int all = owned.size() + links.size() + watchers.size() + watching.size() + 1;
        boolean waited = false;
        for (int n = 0, waits = 0; n < all; ) {
            try {
                tell(n);
                n++;
                waits = 0;
            } catch (OutOfMemoryError noRoom) {
                NoMemory.await(waits++);
                waited = true;
            }
        }
        NoMemory.awaited(waited);
    }

    private void tell(int n) {
        int link = n - owned.size();
        int watcher = link - links.size();
        int watched = watcher - watchers.size();
        if (link < 0) {
            Simulated.switchPoint();
            owned.get(n).ownerDied(dead);
        } else if (watcher < 0) {
            tellLinked(links.get(link));
        } else if (watched < 0) {
            tellWatcher(watchers.get(watcher));
        } else if (watched < watching.size()) {
            Monitors.forget(watching.get(watched));
        } else if (ended != null) {
            ended.release();
        }
    }

    private void tellLinked(Pid linked) {
        LocalProcess p = linked.process();
        if (p != null) {
            InFlight.exit(dead, p, why, true, null);
        } else {
            Remote.died(dead, linked, why);
        }
    }

    private void tellWatcher(Monitor m) {
        LocalProcess p = m.maker().process();
        if (p != null) {
            InFlight.down(dead, p, m, why);
        } else {
            Remote.watchedDied(m, why);
        }
    }
}
