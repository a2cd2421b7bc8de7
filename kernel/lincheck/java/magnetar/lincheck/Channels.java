package magnetar.lincheck;

import magnetar.kernel.channel.Buffer;
import magnetar.kernel.channel.Callback;
import magnetar.kernel.channel.Channel;
import org.jetbrains.lincheck.datastructures.IntGen;
import org.jetbrains.lincheck.datastructures.Operation;
import org.jetbrains.lincheck.datastructures.Param;

/**
 * One channel of each kind under every operation that returns at once. A wait is a put or take with a
 * callback. It returns PENDING, and the operation that serves it later shows that it was there.
 */
public final class Channels {
    private Channels() {}

    /** The operations. A subclass adds the kind. */
    @Param(name = "value", gen = IntGen.class, conf = "1:3")
    public abstract static class Subject {
        final Channel<Integer> channel;

        Subject(Buffer buffer) {
            channel = Channel.of(buffer);
        }

        @Operation
        public String offer(@Param(name = "value") int value) {
            return String.valueOf(channel.sendNow(value));
        }

        @Operation
        public String poll() {
            return String.valueOf(channel.receiveNow());
        }

        @Operation
        public String put(@Param(name = "value") int value) {
            return String.valueOf(channel.sendAsync((Object) value, new Callback(r -> {}, true)));
        }

        @Operation
        public String take() {
            return String.valueOf(channel.receiveAsync(new Callback(r -> {}, true)));
        }

        @Operation
        public void close() {
            channel.close();
        }

        @Operation
        public boolean isClosed() {
            return channel.isClosed();
        }
    }

    /** The same operations, one at a time. */
    public abstract static class Specification {
        final Model model;

        Specification(Model.Kind kind, int capacity) {
            model = new Model(kind, capacity);
        }

        public String offer(int value) {
            return model.put(value, null);
        }

        public String poll() {
            return model.take(null);
        }

        public String put(int value) {
            return model.put(value, new Model.Party());
        }

        public String take() {
            return model.take(new Model.Party());
        }

        public void close() {
            model.close();
        }

        public boolean isClosed() {
            return model.isClosed();
        }
    }

    public static final class Rendezvous extends Subject {
        public Rendezvous() {
            super(null);
        }
    }

    public static final class RendezvousModel extends Specification {
        public RendezvousModel() {
            super(Model.Kind.RENDEZVOUS, 0);
        }
    }

    public static final class Fixed extends Subject {
        public Fixed() {
            super(Buffer.fixed(1));
        }
    }

    public static final class FixedModel extends Specification {
        public FixedModel() {
            super(Model.Kind.FIXED, 1);
        }
    }

    /** The channel of a go block's result, whose value and end come in one step. */
    public static final class Result extends Subject {
        public Result() {
            super(Buffer.fixed(1));
        }

        @Operation
        public void finish(@Param(name = "value") int value) {
            channel.finish(value);
        }
    }

    public static final class ResultModel extends Specification {
        public ResultModel() {
            super(Model.Kind.FIXED, 1);
        }

        public void finish(int value) {
            model.put(value, null);
            model.close();
        }
    }

    public static final class Dropping extends Subject {
        public Dropping() {
            super(Buffer.dropping(1));
        }
    }

    public static final class DroppingModel extends Specification {
        public DroppingModel() {
            super(Model.Kind.DROPPING, 1);
        }
    }

    public static final class Sliding extends Subject {
        public Sliding() {
            super(Buffer.sliding(1));
        }
    }

    public static final class SlidingModel extends Specification {
        public SlidingModel() {
            super(Model.Kind.SLIDING, 1);
        }
    }

    public static final class Promised extends Subject {
        public Promised() {
            super(Buffer.promise());
        }
    }

    public static final class PromisedModel extends Specification {
        public PromisedModel() {
            super(Model.Kind.PROMISE, 1);
        }
    }

    public static final class Unbounded extends Subject {
        public Unbounded() {
            super(Buffer.unbounded());
        }
    }

    public static final class UnboundedModel extends Specification {
        public UnboundedModel() {
            super(Model.Kind.UNBOUNDED, 0);
        }
    }
}
