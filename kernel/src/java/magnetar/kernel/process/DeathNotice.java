package magnetar.kernel.process;

import java.util.List;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.park.Gate;

/**
 * What has to be told after a death, in this order: what the process owned, those linked to it, those that watched it, those it watched, those that wait for its end.
 *
 * <p>Invariant: each is told, once it has begun; where memory has ended, again and again until there is some. So {@link #announce} does not throw.
 */
record DeathNotice(Pid dead, Object why, List<Owned> owned, List<Pid> links, List<Monitor> watchers, List<Monitor> watching, Gate gone) {
    /** Tells all who have to be told, outside of all locks. */
    void announce() {
        Simulated.note("dies", dead, why);
        int all = owned.size() + links.size() + watchers.size() + watching.size() + 1;
        for (int n = 0; n < all; ) {
            try {
                tell(n);
                n++;
            } catch (OutOfMemoryError noRoom) {
                letOthersRun();
            }
        }
    }

    private void tell(int n) {
        int link = n - owned.size();
        int watcher = link - links.size();
        int watched = watcher - watchers.size();
        if (link < 0) {
            Simulated.switchPoint();
            owned.get(n).ownerDied(dead);
        } else if (watcher < 0) {
            tellLinked(links.get(link).process());
        } else if (watched < 0) {
            tellWatcher(watchers.get(watcher));
        } else if (watched < watching.size()) {
            Monitors.forget(watching.get(watched));
        } else if (gone != null) {
            gone.open();
        }
    }

    private void tellLinked(LocalProcess p) {
        if (p != null) {
            Ways.exit(dead, p, why, true);
        }
    }

    private void tellWatcher(Monitor m) {
        LocalProcess p = m.maker().process();
        if (p != null) {
            Ways.down(dead, p, m, why);
        }
    }

    /** Memory has ended: lets others run, who may give some back. Not by a timed park, for which a virtual thread needs memory itself. */
    static void letOthersRun() {
        try {
            if (Thread.currentThread().isVirtual()) {
                Thread.yield();
            } else {
                LockSupport.parkNanos(1_000_000);
            }
        } catch (OutOfMemoryError noRoom) {
            Thread.onSpinWait();
        }
    }
}
