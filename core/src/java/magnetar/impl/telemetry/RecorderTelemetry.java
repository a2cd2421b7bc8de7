package magnetar.impl.telemetry;

import clojure.lang.IPersistentMap;
import clojure.lang.IPersistentVector;
import clojure.lang.Indexed;
import clojure.lang.Keyword;
import clojure.lang.Symbol;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import jdk.jfr.Category;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.EventType;
import jdk.jfr.FlightRecorder;
import jdk.jfr.FlightRecorderListener;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Recording;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;
import magnetar.impl.otp.Instrument;
import magnetar.impl.otp.Instruments;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.Traffic;
import magnetar.kernel.report.Telemetry;
import magnetar.kernel.scope.Scope;

/**
 * Writes the events of the program into the recordings of the JDK's flight recorder that enable them.
 *
 * <p>Invariants:
 * <ol>
 *   <li>While no recording enables one of the events, nothing here is told of anything.
 *   <li>Of a value of the program only an outline is written: keywords, symbols and classes. So no secret gets
 *       into a recording, and no code of the program runs, such as its redaction: an event is written before the
 *       death of a process is announced, or on the thread of the timers.
 * </ol>
 *
 * <p>A carrier that is pinned has an event of the JDK, {@code jdk.VirtualThreadPinned}.
 */
public final class RecorderTelemetry {
    private static final Keyword TYPE = Keyword.intern("type");
    private static final AtomicBoolean IS_REGISTERED = new AtomicBoolean();

    private RecorderTelemetry() {}

    @Category("Magnetar")
    @Enabled(false)
    private abstract static class OfMagnetar extends Event {}

    /** Of a process. */
    private abstract static class OfProcess extends OfMagnetar {
        @Label("Pid")
        String pid;

        @Label("Name or Source Line")
        String label;

        final void of(Object process) {
            Pid p = (Pid) process;
            pid = p.text();
            label = p.label();
        }
    }

    @Name("magnetar.Spawn")
    @Label("Process Spawned")
    private static final class Spawn extends OfProcess {
        @Label("Pid of Parent")
        String parent;
    }

    @Name("magnetar.Exit")
    @Label("Process Exited")
    @StackTrace(false)
    private static final class Exit extends OfProcess {
        @Label("Reason")
        String reason;
    }

    @Name("magnetar.MailboxHighWater")
    @Label("Mailbox High Water")
    @StackTrace(false)
    private static final class MailboxHighWater extends OfProcess {
        @Label("Messages")
        long messages;
    }

    @Name("magnetar.Restart")
    @Label("Child Restarted")
    @StackTrace(false)
    private static final class Restart extends OfMagnetar {
        @Label("Supervisor")
        String supervisor;

        @Label("Child")
        String child;

        @Label("Reason")
        String reason;
    }

    @Name("magnetar.Call")
    @Label("Call of a Server")
    private static final class Call extends OfMagnetar {
        @Label("Function")
        String function;

        @Label("Server")
        String server;

        @Label("Callback Module")
        String callbackModule;

        @Label("Failed")
        boolean failed;
    }

    @Name("magnetar.DeadLetter")
    @Label("Dead Letter")
    private static final class DeadLetter extends OfMagnetar {
        @Label("To")
        String to;

        @Label("Message")
        String message;
    }

    @Name("magnetar.ChannelBlocked")
    @Label("Channel Blocked")
    private static final class ChannelBlocked extends OfMagnetar {
        @Label("Operation")
        String operation;

        @Label("Waited")
        @Timespan
        long waited;
    }

    @Name("magnetar.ScopeTimeout")
    @Label("Scope Timeout")
    @StackTrace(false)
    private static final class ScopeTimeout extends OfMagnetar {
        @Label("Site")
        String site;
    }

    // --- text

    /** A pid, or what the program has given as a name. Of anything else the outline. */
    private static String name(Object value) {
        return value instanceof String || value instanceof Number ? value.toString() : outline(value);
    }

    /** What sort of value it is, as two levels of vectors at most. */
    private static String outline(Object value) {
        return outline(value, 2);
    }

    /**
     * Keywords and symbols as they are, a vector by its first value, an error that a process died of by its class,
     * anything else by its own class.
     */
    private static String outline(Object value, int levels) {
        return switch (value) {
            case null -> "nil";
            case Pid pid -> pid.text();
            case Keyword word -> word.toString();
            case Symbol word -> word.toString();
            case IPersistentVector vector when vector.length() > 0 && levels > 0 ->
                "[" + outline(vector.nth(0), levels - 1) + (vector.length() > 1 ? " ..]" : "]");
            case IPersistentMap map when map.valAt(TYPE) instanceof Symbol type -> type.toString();
            default -> value.getClass().getName();
        };
    }

    // --- sources

    private static final class OfKernel implements Telemetry.Listener {
        @Override
        public void spawned(Object pid, Object parent) {
            Spawn event = new Spawn();
            if (event.isEnabled()) {
                event.of(pid);
                event.parent = parent == null ? null : ((Pid) parent).text();
                event.commit();
            }
        }

        @Override
        public void exited(Object pid, Object reason) {
            Exit event = new Exit();
            if (event.isEnabled()) {
                event.of(pid);
                event.reason = outline(reason);
                event.commit();
            }
        }

        @Override
        public void restarted(Object supervisor, Object child, Object reason) {
            Restart event = new Restart();
            if (event.isEnabled()) {
                event.supervisor = name(supervisor);
                event.child = name(child);
                event.reason = outline(reason);
                event.commit();
            }
        }

        @Override
        public void mailboxGrew(Object pid, long messages) {
            MailboxHighWater event = new MailboxHighWater();
            event.of(pid);
            event.messages = messages;
            event.commit();
        }

        @Override
        public void channelBlocked(String operation, Object on, long nanos) {
            ChannelBlocked event = new ChannelBlocked();
            event.operation = operation;
            event.waited = nanos;
            event.commit();
        }

        @Override
        public void scopeTimedOut(Object scope) {
            ScopeTimeout event = new ScopeTimeout();
            event.site = ((Scope) scope).site();
            event.commit();
        }
    }

    private static final class OfServers implements Instrument {
        @Override
        public Object handles(Object server, Object kind, Object message) {
            return null;
        }

        @Override
        public void handled(Object token, Object server, Throwable error) {}

        @Override
        public Object calls(Object operation, Object address, Object request) {
            Call event = new Call();
            if (!event.isEnabled()) {
                return null;
            }
            event.function = String.valueOf(operation instanceof Indexed called ? called.nth(0) : operation);
            event.server = name(address);
            event.callbackModule = Instruments.labelAt(address);
            event.begin();
            return event;
        }

        @Override
        public void called(Object token, Throwable error) {
            Call event = (Call) token;
            event.failed = error != null;
            event.commit();
        }
    }

    private static final class OfMessages implements Traffic.Observer {
        @Override
        public void loses(Object to, Object message, Object context) {
            try {
                DeadLetter event = new DeadLetter();
                event.to = name(to);
                event.message = outline(message);
                event.commit();
            } catch (Throwable notWritten) {
                // An observer does not throw. The recording lacks one event.
            }
        }
    }

    // --- on and off

    /** A source, and the events that it writes. */
    private enum Source {
        KERNEL(List.of(Spawn.class, Exit.class, Restart.class, MailboxHighWater.class, ChannelBlocked.class, ScopeTimeout.class)) {
            private final OfKernel source = new OfKernel();

            @Override
            void turn(boolean on) {
                if (on) {
                    Telemetry.add(source);
                } else {
                    Telemetry.remove(source);
                }
            }
        },
        SERVERS(List.of(Call.class)) {
            private final OfServers source = new OfServers();

            @Override
            void turn(boolean on) {
                if (on) {
                    Instruments.add(source);
                } else {
                    Instruments.remove(source);
                }
            }
        },
        MESSAGES(List.of(DeadLetter.class)) {
            private final OfMessages source = new OfMessages();

            @Override
            void turn(boolean on) {
                if (on) {
                    Traffic.add(source);
                } else {
                    Traffic.remove(source);
                }
            }
        };

        private final List<Class<? extends Event>> events;

        // Guarded by this.
        private boolean isOn;

        Source(List<Class<? extends Event>> events) {
            this.events = events;
        }

        abstract void turn(boolean on);

        private boolean isWanted() {
            return events.stream().anyMatch(event -> EventType.getEventType(event).isEnabled());
        }

        private synchronized void set(boolean wanted) {
            if (wanted != isOn) {
                isOn = wanted;
                turn(wanted);
            }
        }

        // Two threads may update at once. The recorder has locks of its own, so it is not asked under a lock. The
        // thread that sets last asks afterwards, and so does not leave an old answer.
        void update() {
            boolean wanted;
            do {
                wanted = isWanted();
                set(wanted);
            } while (isWanted() != wanted);
        }
    }

    private static void update() {
        for (Source source : Source.values()) {
            source.update();
        }
    }

    /** Registers the events with the flight recorder. Does nothing in a JVM without one. */
    public static void register() {
        if (!IS_REGISTERED.compareAndSet(false, true)) {
            return;
        }
        try {
            FlightRecorder.addListener(new FlightRecorderListener() {
                @Override
                public void recorderInitialized(FlightRecorder recorder) {
                    for (Source source : Source.values()) {
                        source.events.forEach(FlightRecorder::register);
                    }
                    update(); // a recording may run since the start of the JVM
                }

                @Override
                public void recordingStateChanged(Recording recording) {
                    update();
                }
            });
        } catch (LinkageError | RuntimeException without) {
            // This JVM has no flight recorder.
        }
    }
}
