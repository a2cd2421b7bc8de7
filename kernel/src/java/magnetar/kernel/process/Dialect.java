package magnetar.kernel.process;

import magnetar.kernel.fiber.Exit;

/**
 * The dialect in use: its {@link Codec}, and the codec's constants, made once. It is set before the first
 * process starts.
 */
public final class Dialect {
    // Set or read by any thread.
    private static volatile Dialect current = new Dialect(new Codec() {});

    final Codec codec;
    final Object normal;
    final Object kill;
    final Object killed;
    final Object noproc;
    final Object noconnection;
    final Object abandoned;
    final Object down;
    final Object noMemory;

    private Dialect(Codec codec) {
        this.codec = codec;
        this.normal = codec.constant("normal");
        this.kill = codec.constant("kill");
        this.killed = codec.constant("killed");
        this.noproc = codec.constant("noproc");
        this.noconnection = codec.constant("noconnection");
        this.abandoned = codec.constant("abandoned");
        this.down = codec.constant("DOWN");
        this.noMemory = codec.noMemory();
    }

    /** The value as text of bounded length, as {@link Codec#text}. */
    public static String text(Object value) {
        return current.codec.text(value);
    }

    static Dialect get() {
        return current;
    }

    static Codec codec() {
        return current.codec;
    }

    /** Uses this codec from now on. */
    public static void use(Codec codec) {
        current = new Dialect(codec);
        Exit.setText(codec::text);
    }
}
