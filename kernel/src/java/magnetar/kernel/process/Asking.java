package magnetar.kernel.process;

import magnetar.kernel.park.Waiter;
import magnetar.kernel.park.World;
import magnetar.kernel.time.Alarm;

/**
 * A monitor that stands from one call of a process to its next, while it calls the same process: a call is {@link #open} in it until it was answered or
 * given up, and neither side changes a list for it.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A process lists no more than one of its own, for whom it called last, and has no more than one call open in it. It is listed with the watched process
 *       as any monitor, from before its first request is sent to the death of one of both, or to a call of another process.
 *   <li>The caller alone opens a call, without a lock, and then looks whether the watched process is dead. That one is dead before it asks what is open. So one
 *       of both sees the other.
 *   <li>Whoever ends the call, under the monitor of the caller's process, decides: an answer, the message of the death, or neither. So one of them comes, once.
 * </ol>
 *
 * <p>Refused: a call that is told of the death by the mailbox that its request is in (whoever kills a process may not look at the list of messages, which its
 * thread may be working on), and a monitor for each call, as before (callers and the server meet under the server's monitor, twice for each call).
 */
final class Asking extends Monitor {
    // Written by the caller, or under the monitor of its process.
    private volatile Monitor open;

    // Only accessed by the caller, but that whoever ends the monitor ends the alarm.
    private boolean again;
    private volatile Alarm alarm;

    Asking(long id, long creation, Pid maker, Pid watched, Monitor first) {
        super(id, creation, maker, 0, watched, watched, null);
        open = first;
    }

    @Override
    Monitor call() {
        return open;
    }

    /** Opens a call. Called by the caller, if none is open. */
    void open(Monitor call) {
        open = call;
        again = true;
    }

    /** What limits the wait for the answer to this call; null if that needs a timer of its own. Called by the caller. */
    Alarm alarm(Ref call, World world, Mailbox mailbox) {
        if (!again || open != call) {
            return null;
        }
        if (alarm == null) {
            alarm = new Alarm(world) {
                @Override
                protected Waiter waiter() {
                    return mailbox.waiter();
                }
            };
        }
        return alarm;
    }

    /** Nobody calls in it any more. */
    void end() {
        Alarm a = alarm;
        if (a != null) {
            a.end();
        }
    }

    /** Under the monitor of the caller's process: ends the call that is open, and returns it; null if none is. */
    Monitor close() {
        Monitor was = open;
        open = null;
        return was;
    }

    /** The same, if it is this one: false if it is not. */
    static boolean close(Asking asking, Ref call) {
        return asking != null && asking.open == call && asking.close() != null;
    }
}
