package magnetar.impl.inspect;

import clojure.lang.IFn;
import clojure.lang.RT;
import clojure.lang.Symbol;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.FlightRecorder;
import jdk.jfr.FlightRecorderListener;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/**
 * Tells the state of the program from outside, through the JDK's flight recorder: who may attach to the JVM
 * switches the event {@code magnetar.Dump} on, and finds the state in the recording.
 *
 * <p>Nothing listens, and nothing runs before. Source: {@code jcmd JFR.start}, which every JVM answers.
 * Rejected: an MBean, whose connector leaves a port open; an agent, which the JDK is about to forbid.
 */
public final class Door {
    /** How long the program has to answer. */
    private static final int SECONDS = 5;

    /** The longest text that one event may hold is a little longer. */
    private static final int PART = 30_000;

    private static boolean isOpen;

    private Door() {}

    /** A part of the state. The parts with the same answer make one text. */
    @Name("magnetar.Dump")
    @Label("State of the Magnetar program")
    @Category("Magnetar")
    @Description("What magnetar.inspect/dump returns, as text in several parts")
    @Enabled(false)
    @StackTrace(false)
    private static final class Dump extends Event {
        @Label("Answer")
        long answer;

        @Label("Part")
        int part;

        @Label("Parts")
        int parts;

        @Label("Text")
        String text;
    }

    /** From now on the recorder may ask. Does nothing in a JVM without a recorder. */
    public static synchronized void open() {
        if (isOpen) {
            return;
        }
        isOpen = true;
        try {
            FlightRecorder.addListener(new FlightRecorderListener() {
                @Override
                public void recorderInitialized(FlightRecorder recorder) {
                    FlightRecorder.addPeriodicEvent(Dump.class, Door::answer);
                }
            });
        } catch (LinkageError | RuntimeException without) {
            // this JVM has no flight recorder, so nobody can ask it
        }
    }

    private static void answer() {
        String text = ask();
        long answer = System.nanoTime();
        int parts = (text.length() + PART - 1) / PART;
        for (int i = 0; i < parts; i++) {
            Dump event = new Dump();
            event.answer = answer;
            event.part = i;
            event.parts = parts;
            event.text = text.substring(i * PART, Math.min(text.length(), (i + 1) * PART));
            event.commit();
        }
    }

    /** The state as text, asked on a thread of its own, because the one that asks must come back. */
    private static String ask() {
        FutureTask<String> state = new FutureTask<>(Door::state);
        Thread.ofPlatform().name("magnetar-inspect").daemon().start(state);
        try {
            return state.get(SECONDS, TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            return "{:magnetar/failed \"The program did not tell its state within " + SECONDS + " s.\"}";
        } catch (ExecutionException | InterruptedException e) {
            return "{:magnetar/failed " + RT.printString(String.valueOf(e.getCause() == null ? e : e.getCause())) + "}";
        }
    }

    private static String state() {
        Thread.currentThread().setContextClassLoader(Door.class.getClassLoader()); // the thread that asks is the JVM's, and has none
        return (String) ((IFn) RT.var("clojure.core", "requiring-resolve").invoke(Symbol.intern("magnetar.impl.inspect.dump", "text"))).invoke();
    }
}
