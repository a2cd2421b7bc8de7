package magnetar.check;

import java.util.Map;
import magnetar.kernel.sched.Fault;
import magnetar.kernel.sched.HandOff;

/**
 * Runs checks by name: {@code Main NAME..}. Prints one line for the first that fails and exits with 1. The
 * property {@code magnetar.check.fault} seeds a defect.
 */
public final class Main {
    /** A check. It throws an {@code AssertionError} that says what it saw. */
    interface Check {
        void run() throws Exception;
    }

    static final Map<String, Check> CHECKS = Map.ofEntries(
            Map.entry("publication", Races::publication),
            Map.entry("wake-up", Races::wakeUp),
            Map.entry("look-again", Races::lookAgain),
            Map.entry("first-waiters", Races::firstWaiters),
            Map.entry("crossing", Races::crossing),
            Map.entry("crossing-foreign", Races::crossingForeign),
            Map.entry("ring", Races::ring),
            Map.entry("interrupt-after-claim", Races::interruptAfterClaim),
            Map.entry("expiry-after-claim", Races::expiryAfterClaim),
            Map.entry("cause-first", Races::causeFirst),
            Map.entry("level-triggered", Races::levelTriggered),
            Map.entry("shielded", Races::shielded),
            Map.entry("deadlines", Scopes::deadlines),
            Map.entry("closing", Scopes::closing),
            Map.entry("clean-ups", Scopes::cleanUps),
            Map.entry("unstarted", Scopes::unstarted),
            Map.entry("on-cancel", Scopes::onCancel),
            Map.entry("ghosts", Races::ghosts),
            Map.entry("close", Races::close),
            Map.entry("close-is-visible", Races::closeIsVisible),
            Map.entry("refill", Races::refill),
            Map.entry("own-buffer", Races::ownBuffer),
            Map.entry("never-early", Timing::neverEarly),
            Map.entry("earlier-timer", Timing::earlierTimer),
            Map.entry("wheel-on-clock", Timing::wheelOnClock),
            Map.entry("idle", Timing::idle),
            Map.entry("released", Timing::released),
            Map.entry("not-on-timer-thread", Timing::notOnTimerThread),
            Map.entry("durations", Timing::durations),
            Map.entry("pairs", Claims::pairs),
            Map.entry("endings", Claims::endings),
            Map.entry("shared-timeout", Timing::sharedTimeout),
            Map.entry("reachability", Life::reachability),
            Map.entry("finishers", Life::finishers),
            Map.entry("fairness", Life::fairness),
            Map.entry("fairness-pairs", Life::fairnessPairs),
            Map.entry("waits", Life::waits),
            Map.entry("waits-in-turn", Life::waitsInTurn),
            Map.entry("waited-for-once", Life::waitedForOnce),
            Map.entry("blockers", () -> Life.blockers(2_000)),
            Map.entry("blockers-100000", () -> Life.blockers(100_000)),
            Map.entry("asks", Asks::answers),
            Map.entry("ask-ghosts", Asks::ghosts),
            Map.entry("ask-deaths", Asks::deaths),
            Map.entry("ask-once", Asks::once),
            Map.entry("ask-limits", Asks::limits),
            Map.entry("ask-shielded", Asks::shielded),
            Map.entry("mailbox-wake-up", Mailboxes::wakeUp),
            Map.entry("mailbox-order", Mailboxes::order),
            Map.entry("mailbox-ghosts", Mailboxes::ghosts),
            Map.entry("mailbox-beside-channels", Mailboxes::besideChannels),
            Map.entry("mailbox-claims", Mailboxes::claims),
            Map.entry("mailbox-marks", Mailboxes::marks),
            Map.entry("mailbox-closed", Mailboxes::closed),
            Map.entry("mailbox-policies", Mailboxes::policies),
            Map.entry("mailbox-dropped", Mailboxes::dropped),
            Map.entry("mailbox-many-senders", Mailboxes::manySenders),
            Map.entry("mailbox-giving-up", Mailboxes::givingUp),
            Map.entry("mailbox-stress", () -> Mailboxes.stress(1_000, 50)),
            Map.entry("mailbox-stress-10000", () -> Mailboxes.stress(10_000, 20)),
            Map.entry("mailbox-stress-long", () -> Mailboxes.stress(10_000, 400)),
            Map.entry("signals-little-memory", Signals::littleMemory),
            Map.entry("memory-named", Memory::named),
            Map.entry("memory-old-news", Memory::oldNews),
            Map.entry("memory-waits", Memory::waits),
            Map.entry("memory-brief-waits", Memory::briefWaits),
            Map.entry("memory-reserved", Memory::reserved),
            Map.entry("signals", () -> Model.run(60, 60)),
            Map.entry("signals-at-rest", () -> Model.runAtRest(60, 60)),
            Map.entry("rests-again", Rests::again),
            Map.entry("rests-messages", Rests::messages),
            Map.entry("rests-with-message", Rests::withMessage),
            Map.entry("rests-signals", Rests::signals),
            Map.entry("signals-random", () -> Galaxy.run(60)),
            Map.entry("signals-links", Signals::links),
            Map.entry("signals-monitors", Signals::monitors),
            Map.entry("signals-aliases", Signals::aliases),
            Map.entry("signals-names", Signals::names),
            Map.entry("signals-births", Signals::births),
            Map.entry("signals-guests", Signals::guests),
            Map.entry("signals-traps", Signals::traps),
            Map.entry("signals-kills", Signals::kills),
            Map.entry("signals-clean-ups", Signals::cleanUps),
            Map.entry("storm", () -> Signals.storm(40_000)),
            Map.entry("storm-1000000", () -> Signals.storm(1_000_000)),
            Map.entry("hand-off-bound", HandOffs::bound),
            Map.entry("hand-off-targets", ofHandOff(HandOffs::targets)),
            Map.entry("hand-off-lost", HandOffs::lost),
            Map.entry("hand-off-crowded", HandOffs::crowded),
            Map.entry("hand-off-fair", ofHandOff(HandOffs::fair)),
            Map.entry("hand-off-outside", ofHandOff(HandOffs::outside)),
            Map.entry("hand-off-together", ofHandOff(HandOffs::together)),
            Map.entry("hand-off-ring", () -> HandOffs.ring(200, 100)),
            Map.entry("computing", Computations::computing),
            Map.entry("computing-busy-afterwards", Computations::busyAfterwards),
            Map.entry("computing-pairs", Computations::pairs),
            Map.entry("computing-yielding", Computations::yielding),
            Map.entry("computing-host", Computations::host),
            Map.entry("computing-off", Computations::off),
            Map.entry("timers-in-backlog", Computations::backlog),
            Map.entry("timers-in-backlog-of-one-carrier", ofHandOff(Computations::backlog)),
            Map.entry("deaths-leave-nothing", () -> Deaths.leaveNothing(40_000)),
            Map.entry("deaths-leave-nothing-1000000", () -> Deaths.leaveNothing(1_000_000)),
            Map.entry("deaths-kept-pid", Deaths::keptPid),
            Map.entry("deaths-listening-socket", () -> Deaths.listeningSocket(1_000)),
            Map.entry("fairness-processes", Deaths::fairness),
            Map.entry("stacks-read", Stacks::read),
            Map.entry("stress", () -> Stress.run(1_000, 50)),
            Map.entry("stress-10000", () -> Stress.run(10_000, 50)),
            Map.entry("stress-long", () -> Stress.run(10_000, 1_000)));

    private Main() {}

    /** A check that needs hand-off: it passes where hand-off is off. */
    private static Check ofHandOff(Check check) {
        return () -> {
            if (HandOff.isOn()) {
                check.run();
            }
        };
    }

    public static void main(String[] args) {
        String fault = System.getProperty("magnetar.check.fault");
        if (fault != null) {
            Fault.seed(Fault.valueOf(fault));
        }
        for (String name : args) {
            run(name);
        }
        System.exit(0);
    }

    private static void run(String name) {
        long begin = System.nanoTime();
        try {
            CHECKS.get(name).run();
            // One write: standard error goes to the same file and may put a warning between two.
            System.out.println("green " + name + " " + (System.nanoTime() - begin) / 1_000_000 + " ms");
        } catch (Throwable t) {
            System.out.println("red " + name + " " + t.getMessage());
            Runtime.getRuntime().halt(1);
        }
    }
}
