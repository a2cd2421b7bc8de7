package magnetar.kernel.process;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.World;
import magnetar.kernel.park.Parked;
import magnetar.kernel.time.Alarm;
import magnetar.kernel.time.Durations;

/**
 * A monitor that stands from one call of a process to its next, while it calls the same process: a call is {@link #open} in it until it has ended, and neither
 * side changes a list for it.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A process lists no more than one of its own, for whom it called last. It is listed with the watched process as any monitor, from before its first
 *       request is sent to the death of one of both, or to a call of another process; or, where it was for one call only, until the caller waits in its mailbox
 *       for something else; or until the caller goes to rest. So a server lists those who call it again and again, some 200 bytes each, while both live.
 *   <li>The caller alone opens a call, without a lock, and then looks whether the watched process is dead, or itself has to end. These are written before anybody
 *       asks what is open. So one of both sees the other.
 * </ol>
 *
 * <p>Refused: a call that is told of the death by the mailbox that its request is in (whoever kills a process may not look at the list of messages, which its
 * thread may be working on), and a monitor for each call (callers and the server meet under the server's monitor, twice for each call).
 */
final class Asking extends Monitor {
    private static final VarHandle OPEN;

    static {
        try {
            OPEN = MethodHandles.lookup().findVarHandle(Asking.class, "open", Call.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    // Written by the caller.
    private volatile Call open;
    private volatile Alarm alarm;

    // Only accessed by the caller: true when the first call has ended.
    private boolean again;

    Asking(long id, long creation, Pid maker, Pid watched) {
        super(id, creation, maker, 0, watched, watched, null);
    }

    @Override
    Call call() {
        return open;
    }

    /** Opens a call. Called by the caller, who waits for no other. */
    void open(Call call, World world) {
        if (alarm == null && again) {
            alarm = new CallAlarm(world);
        }
        if (alarm != null) {
            alarm.set(call.deadline);
        }
        Simulated.switchPoint();
        open = call;
    }

    /** True if there was one call only, which has ended. Called by the caller. */
    boolean isForOneCall() {
        return alarm == null && open == null;
    }

    /** True if time ends the call without a timer of its own. Called by the caller. */
    boolean limits(Call call) {
        return !call.isAddress() || alarm != null && call.deadline != Durations.INFINITE && alarm.arm();
    }

    /** The caller waits no longer. */
    void close() {
        if (alarm != null) {
            alarm.lift();
        }
        OPEN.setRelease(this, (Call) null);
        again = true;
    }

    /** Nobody calls in it any more. */
    void end() {
        Alarm a = alarm;
        if (a != null) {
            a.end();
        }
    }

    private final class CallAlarm extends Alarm {
        CallAlarm(World world) {
            super(world);
        }

        @Override
        protected Parked waiter() {
            Call call = open;
            return call == null ? null : call.waiter();
        }
    }
}
