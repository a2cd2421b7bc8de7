package magnetar.impl.inspect;

import clojure.lang.IFn;
import clojure.lang.RT;
import clojure.lang.Symbol;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;
import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.FlightRecorder;
import jdk.jfr.FlightRecorderListener;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Recording;
import jdk.jfr.RecordingState;
import jdk.jfr.StackTrace;

/**
 * Answers questions about the program from outside through the JDK's flight recorder. A user that may attach to
 * the JVM enables one of the events here, and finds the answer in the recording.
 *
 * <p>The program does not listen, and nothing runs before an event is enabled. Source: {@code jcmd JFR.start},
 * which every JVM with a flight recorder answers. Rejected: an MBean, whose connector leaves a port open; an agent,
 * which the JDK is about to forbid.
 *
 * <p>A recording that has one of the events gets an answer when it starts. It gets more at the period of the event,
 * if it sets one. Rejected: the period {@code beginChunk} alone, since each {@code JFR.dump} begins a chunk, so that
 * reading an answer would ask again.
 *
 * <p>Invariants:
 *
 * <ul>
 *   <li>Each question is answered on a thread of its own, so the recorder's thread does not wait. A second thread
 *       commits an event without text for each second in which the first one runs. So the asking JVM can tell a busy
 *       machine, on which loading the code that answers takes long, from a program that cannot answer.
 *   <li>Asking again does nothing while an answer is being computed. The recording that asks again gets that
 *       answer: it has the event before it asks, and {@code isAsked} is reset before the answer is committed.
 * </ul>
 */
public final class RecorderEvents {
    /** The most characters of a part. The longest text that an event may hold is a little longer. */
    private static final int PART = 30_000;

    private static final Duration SIGN_PERIOD = Duration.ofSeconds(1);

    private static boolean isRegistered;

    private RecorderEvents() {}

    /** A part of an answer. The parts with the same number make one text. Of 0 parts is what says that the answer is being computed. */
    @Category("Magnetar")
    @Enabled(false)
    @StackTrace(false)
    private abstract static class Answer extends Event {
        @Label("Answer")
        long answer;

        @Label("Part")
        int part;

        @Label("Parts")
        int parts;

        @Label("Text")
        String text;
    }

    @Name("magnetar.Dump")
    @Label("State of the Magnetar program")
    @Description("What magnetar.inspect/dump returns, as text in several parts")
    private static final class Dump extends Answer {}

    @Name("magnetar.Top")
    @Label("What uses the processor in the Magnetar program")
    @Description("What magnetar.inspect/top returns, as text in several parts")
    private static final class Top extends Answer {}

    @Name("magnetar.Leaks")
    @Label("What is lost in the Magnetar program")
    @Description("What magnetar.inspect/leaks returns, as text in several parts")
    private static final class Leaks extends Answer {}

    @Name("magnetar.Why")
    @Label("What some of the Magnetar program wait for")
    @Description("What magnetar.inspect/why-stuck returns for those with the name in the setting `name`, as text in several parts")
    private static final class Why extends Answer {}

    @Name("magnetar.Cluster")
    @Label("The cluster that the Magnetar program is a node of")
    @Description("What the program answers to the question in the setting `name`: status, trees, or leave, by which it leaves; as text in several parts")
    private static final class Cluster extends Answer {}

    /**
     * A question. The function {@code text} of its namespace returns the answer as EDN. It gets the setting
     * {@code name} of the event, if the recording has one.
     */
    private enum Question {
        DUMP("dump", Dump.class, Dump::new),
        TOP("top", Top.class, Top::new),
        LEAKS("leaks", Leaks.class, Leaks::new),
        WHY("why", Why.class, Why::new),
        CLUSTER("cluster", Cluster.class, Cluster::new);

        private final String namespace;
        private final String event;
        private final Supplier<Answer> part;
        private final AtomicBoolean isAsked = new AtomicBoolean();

        Question(String name, Class<? extends Answer> event, Supplier<Answer> part) {
            namespace = "magnetar.impl.inspect." + name;
            this.event = event.getAnnotation(Name.class).value();
            this.part = part;
        }

        boolean isIn(Recording recording) {
            return "true".equals(recording.getSettings().get(event + "#enabled"));
        }

        void ask(Recording recording) {
            String name = recording.getSettings().get(event + "#name");
            if (name == null) {
                ask();
            } else {
                start(() -> commit(text(name)));
            }
        }

        /** Called by the recorder. */
        void ask() {
            if (isAsked.compareAndSet(false, true)) {
                start(this::answer);
            }
        }

        private void start(Runnable answer) {
            Thread answering = Thread.ofPlatform().name("magnetar-inspect").daemon().start(answer);
            Thread.ofPlatform().name("magnetar-inspect-signs").daemon().start(() -> giveSigns(answering));
        }

        private void giveSigns(Thread answering) {
            try {
                while (!answering.join(SIGN_PERIOD)) {
                    if (answering.getState() == Thread.State.RUNNABLE) {
                        part.get().commit();
                    }
                }
            } catch (InterruptedException stopped) {
                // Nothing here interrupts it; without signs the one that asks waits less.
            }
        }

        private void answer() {
            String text;
            try {
                text = text(null);
            } finally {
                isAsked.set(false);
            }
            commit(text);
        }

        private String text(String name) {
            try {
                Thread.currentThread().setContextClassLoader(RecorderEvents.class.getClassLoader()); // inherited from the recorder's thread, which has none
                IFn text = (IFn) RT.var("clojure.core", "requiring-resolve").invoke(Symbol.intern(namespace, "text"));
                return (String) (name == null ? text.invoke() : text.invoke(name));
            } catch (Throwable failed) {
                return "{:magnetar/failed " + RT.printString(inWords(failed)) + "}";
            }
        }

        /** The message of the root cause, since the exceptions around it are about loading. */
        private static String inWords(Throwable failed) {
            Throwable first = failed;
            while (first.getCause() != null) {
                first = first.getCause();
            }
            return first.getMessage() == null ? first.getClass().getSimpleName() : first.getMessage();
        }

        private void commit(String text) {
            long answer = System.nanoTime();
            int parts = (text.length() + PART - 1) / PART;
            for (int i = 0; i < parts; i++) {
                Answer event = part.get();
                event.answer = answer;
                event.part = i;
                event.parts = parts;
                event.text = text.substring(i * PART, Math.min(text.length(), (i + 1) * PART));
                event.commit();
            }
        }
    }

    /** Registers the events with the flight recorder. Does nothing in a JVM without one. */
    public static synchronized void register() {
        if (isRegistered) {
            return;
        }
        isRegistered = true;
        try {
            FlightRecorder.addListener(new FlightRecorderListener() {
                @Override
                public void recorderInitialized(FlightRecorder recorder) {
                    FlightRecorder.addPeriodicEvent(Dump.class, Question.DUMP::ask);
                    FlightRecorder.addPeriodicEvent(Top.class, Question.TOP::ask);
                    FlightRecorder.addPeriodicEvent(Leaks.class, Question.LEAKS::ask);
                    FlightRecorder.register(Why.class);
                    FlightRecorder.register(Cluster.class);
                }

                @Override
                public void recordingStateChanged(Recording recording) {
                    if (recording.getState() == RecordingState.RUNNING) {
                        for (Question question : Question.values()) {
                            if (question.isIn(recording)) {
                                question.ask(recording);
                            }
                        }
                    }
                }
            });
        } catch (LinkageError | RuntimeException without) {
            // This JVM has no flight recorder, so it cannot be asked.
        }
    }
}
