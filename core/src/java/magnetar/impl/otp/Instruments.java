package magnetar.impl.otp;

import clojure.lang.IFn;
import magnetar.kernel.report.Failures;
import magnetar.kernel.report.Subscribers;

/**
 * The instruments of servers and calls.
 *
 * <p>Invariants:
 * <ol>
 *   <li>Without an instrument a message and a call find the list empty, and allocate nothing.
 *   <li>An instrument that was told of a beginning is told of its end, also if it was removed meanwhile. It is told
 *       of no other end. Ends come in the reverse order of the beginnings.
 *   <li>An instrument never throws into the program. Its first error is reported. If it fails at a beginning, it is
 *       absent for that message or call.
 * </ol>
 */
public final class Instruments {
    private static final Subscribers<Installed> ALL = new Subscribers<>(new Installed[0]);

    // Set or read by any thread. Without the namespace that sets it there are no servers.
    private static volatile IFn labels;

    private Instruments() {}

    /** Sets the function from an address to what the callback module of the server there is called, or nil. */
    public static void setLabels(IFn next) {
        labels = next;
    }

    /** What the callback module of the server at the address is called, or null. */
    public static String labelAt(Object address) {
        IFn f = labels;
        Object label = f == null ? null : f.invoke(address);
        return label == null ? null : label.toString();
    }

    private static final class Installed {
        final Instrument instrument;

        // Two threads may both report a first error; no lock is worth less.
        private volatile boolean hasFailed;

        Installed(Instrument instrument) {
            this.instrument = instrument;
        }

        void failed(Throwable error) {
            if (error instanceof InterruptedException) {
                Thread.currentThread().interrupt();
            } else if (!hasFailed) {
                hasFailed = true;
                report(error);
            }
        }

        private void report(Throwable error) {
            try {
                Failures.report("the instrument ".concat(instrument.getClass().getName()), Thread.currentThread(), error);
            } catch (Throwable noReport) {
                // The message is handled, or the call made, all the same.
            }
        }
    }

    /** Adds an instrument. It learns of what begins from now on. */
    public static void add(Instrument instrument) {
        ALL.add(new Installed(instrument));
    }

    /** Removes an instrument, if it is installed. */
    public static void remove(Instrument instrument) {
        ALL.remove(each -> each.instrument == instrument);
    }

    /** True if there is an instrument. */
    public static boolean isOn() {
        return !ALL.isEmpty();
    }

    /** Tells the instruments that the server handles the message; returns what its end is told to. */
    public static Begun handles(Object server, Object kind, Object message) {
        Begun begun = new Begun(server);
        for (int i = 0; i < begun.all.length; i++) {
            try {
                begun.tokens[i] = begun.all[i].instrument.handles(server, kind, message);
            } catch (Throwable error) {
                begun.all[i].failed(error);
            }
        }
        return begun;
    }

    /** Tells the instruments that a call is made; returns what its end is told to. */
    public static Begun calls(Object operation, Object address, Object request) {
        Begun begun = new Begun(null);
        for (int i = 0; i < begun.all.length; i++) {
            try {
                begun.tokens[i] = begun.all[i].instrument.calls(operation, address, request);
            } catch (Throwable error) {
                begun.all[i].failed(error);
            }
        }
        return begun;
    }

    /** A message that is being handled, or a call that is being made. */
    public static final class Begun {
        private final Installed[] all = ALL.all();
        private final Object[] tokens;
        private final Object server; // null for a call

        Begun(Object server) {
            this.tokens = new Object[all.length];
            this.server = server;
        }

        /** Tells those instruments of the end that wanted it, the last one first. The error may be null. */
        public void end(Throwable error) {
            for (int i = all.length - 1; i >= 0; i--) {
                if (tokens[i] != null) {
                    end(all[i], tokens[i], error);
                }
            }
        }

        private void end(Installed each, Object token, Throwable error) {
            try {
                if (server == null) {
                    each.instrument.called(token, error);
                } else {
                    each.instrument.handled(token, server, error);
                }
            } catch (Throwable inInstrument) {
                each.failed(inInstrument);
            }
        }
    }
}
