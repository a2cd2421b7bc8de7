package magnetar.erlang.wire;

/**
 * What a node can do, as the bits that the two sides of a handshake tell each other.
 *
 * <p>Source: the flags of Erlang's distribution protocol, as OTP 25 to 28 have them.
 */
final class Flags {
    static final long PUBLISHED = 1;
    static final long HEADER = 0x2000; // atoms are cached, and each packet begins with those that it refers to
    static final long FRAGMENTS = 0x800000;
    static final long SPAWN = 1L << 32; // starts processes for others

    private static final long MONITORS = 0x8 | 0x20;
    private static final long UNICODE_IO = 0x1000; // group leaders here get text in Unicode
    private static final long SMALL_ATOMS = 0x4000;
    private static final long SEND_SENDER = 0x80000;
    private static final long EXIT_PAYLOAD = 0x400000;
    private static final long UNLINK_ID = 0x2000000;
    private static final long MANDATORY_DIGEST = 0x4000000; // stands for all of MANDATORY
    private static final long V4_NC = 1L << 34; // ids of 32 bits
    private static final long ALIAS = 1L << 35;

    /** What OTP 25 requires of each node. */
    private static final long MANDATORY =
            0x4 | 0x10 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x20000 | 0x40000 | 0x1000000;

    /** What this node tells. */
    static final long OWN = MANDATORY | MANDATORY_DIGEST | MONITORS | HEADER | SMALL_ATOMS | SEND_SENDER | EXIT_PAYLOAD | FRAGMENTS
            | UNLINK_ID | V4_NC | ALIAS | SPAWN | UNICODE_IO;

    private static final long REQUIRED = MANDATORY | SEND_SENDER | EXIT_PAYLOAD | UNLINK_ID | V4_NC;

    private Flags() {}

    /** What a node that has told these bits can do. */
    static long meant(long told) {
        return (told & MANDATORY_DIGEST) == 0 ? told : told | MANDATORY;
    }

    /** Which bits this node needs and the other one has not. */
    static long missing(long meant) {
        return REQUIRED & ~meant;
    }
}
