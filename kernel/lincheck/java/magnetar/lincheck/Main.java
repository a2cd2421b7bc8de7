package magnetar.lincheck;

import java.util.regex.Pattern;
import org.jetbrains.lincheck.LincheckAssertionError;
import org.jetbrains.lincheck.datastructures.ModelCheckingOptions;
import org.jetbrains.lincheck.datastructures.Options;
import org.jetbrains.lincheck.datastructures.StressOptions;
import org.jetbrains.lincheck.datastructures.verifier.SerializabilityVerifier;

/** Runs every Lincheck test, {@code quick} or {@code full}; prints {@code ok TITLE} or {@code FAIL TITLE} for each. */
public final class Main {
    private static final Pattern INCORRECT =
            Pattern.compile("\\s*= (Invalid execution results|Validation function \\w+ has failed) =");

    private static boolean quick;
    private static boolean failed;

    private Main() {}

    public static void main(String[] args) {
        quick = args.length == 0 || args[0].equals("quick");
        control("a buffer that forgets to lock", Controls.ForgetfulFixed.class, Channels.FixedModel.class);
        control("a take without a claim", Controls.Unclaimed.class, Channels.RendezvousModel.class);
        control("an owner that waits without a second look", Controls.Deaf.class, Mailboxes.OpenModel.class);
        channel("rendezvous", Channels.Rendezvous.class, Channels.RendezvousModel.class);
        channel("fixed", Channels.Fixed.class, Channels.FixedModel.class);
        channel("result", Channels.Result.class, Channels.ResultModel.class);
        channel("dropping", Channels.Dropping.class, Channels.DroppingModel.class);
        channel("sliding", Channels.Sliding.class, Channels.SlidingModel.class);
        channel("promise", Channels.Promised.class, Channels.PromisedModel.class);
        channel("unbounded", Channels.Unbounded.class, Channels.UnboundedModel.class);
        selects();
        mailbox("open", Mailboxes.Open.class, Mailboxes.OpenModel.class);
        mailbox("blocking", Mailboxes.Blocking.class, Mailboxes.RefusingModel.class);
        mailbox("failing", Mailboxes.Failing.class, Mailboxes.RefusingModel.class);
        mailbox("dropping the newest", Mailboxes.DroppingNew.class, Mailboxes.RefusingModel.class);
        mailbox("dropping the oldest", Mailboxes.DroppingOld.class, Mailboxes.DroppingOldModel.class);
        System.exit(failed ? 1 : 0);
    }

    private static void channel(String title, Class<?> subject, Class<?> specification) {
        holds("Lincheck, model checking: " + title + " channel", subject, specification,
                new ModelCheckingOptions().iterations(quick ? 5 : 25).invocationsPerIteration(quick ? 100 : 500)
                        .threads(2).actorsPerThread(3).actorsBefore(2).actorsAfter(2));
        if (quick && subject != Channels.Rendezvous.class) {
            return;
        }
        holds("Lincheck, stress: " + title + " channel", subject, specification,
                new StressOptions().iterations(quick ? 5 : 25).invocationsPerIteration(quick ? 500 : 3_000)
                        .threads(2).actorsPerThread(3).actorsBefore(2).actorsAfter(2));
    }

    private static void selects() {
        holds("Lincheck, model checking: selects that cross", Selects.Crossing.class, Selects.CrossingModel.class,
                new ModelCheckingOptions().iterations(quick ? 8 : 40).invocationsPerIteration(quick ? 150 : 500)
                        .threads(3).actorsPerThread(1).actorsBefore(1).actorsAfter(2).verifier(SerializabilityVerifier.class));
        holds("Lincheck, stress: selects that cross", Selects.Crossing.class, Selects.CrossingModel.class,
                new StressOptions().iterations(quick ? 10 : 50).invocationsPerIteration(quick ? 500 : 3_000)
                        .threads(3).actorsPerThread(1).actorsBefore(1).actorsAfter(2).verifier(SerializabilityVerifier.class));
    }

    /**
     * Without operations afterwards, the validation sees the result of the parallel ones. With them, the
     * mailbox is emptied.
     */
    private static void mailbox(String title, Class<?> subject, Class<?> specification) {
        holds("Lincheck, model checking: mailbox, " + title, subject, specification,
                new ModelCheckingOptions().iterations(quick ? 8 : 30).invocationsPerIteration(quick ? 100 : 500)
                        .threads(2).actorsPerThread(3).actorsBefore(2).actorsAfter(0));
        if (quick && subject != Mailboxes.Open.class) {
            return;
        }
        holds("Lincheck, stress: mailbox, " + title, subject, specification,
                new StressOptions().iterations(quick ? 5 : 25).invocationsPerIteration(quick ? 500 : 3_000)
                        .threads(3).actorsPerThread(2).actorsBefore(2).actorsAfter(3));
    }

    private static void control(String title, Class<?> subject, Class<?> specification) {
        Throwable found = failure(subject, specification,
                new ModelCheckingOptions().iterations(30).invocationsPerIteration(500).threads(2).actorsPerThread(2).actorsBefore(0).actorsAfter(0));
        report("Lincheck finds the control: " + title,
                isIncorrectExecution(found) ? null : found == null ? new AssertionError("it passed") : found);
    }

    /** True for Lincheck's report of wrong results or of a failed validation, false for a crash or a hang. */
    private static boolean isIncorrectExecution(Throwable found) {
        return found instanceof LincheckAssertionError && INCORRECT.matcher(found.getMessage()).lookingAt();
    }

    private static void holds(String title, Class<?> subject, Class<?> specification, Options<?, ?> options) {
        report(title, failure(subject, specification, options));
    }

    private static Throwable failure(Class<?> subject, Class<?> specification, Options<?, ?> options) {
        long begin = System.nanoTime();
        try {
            options.sequentialSpecification(specification).check(subject);
            return null;
        } catch (Throwable t) {
            return t;
        } finally {
            System.out.println((System.nanoTime() - begin) / 1_000_000 + " ms");
        }
    }

    private static void report(String title, Throwable failure) {
        failed |= failure != null;
        System.out.println(failure == null ? "ok " + title : failure + "\nFAIL " + title);
    }
}
