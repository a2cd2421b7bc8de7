package magnetar.erlang.wire;

import java.util.Arrays;
import magnetar.etf.Decoder;

/**
 * The atoms that the other node sends once and refers to by a number from then on. Each packet begins with the numbers
 * that it uses, and with the names of those that are new.
 *
 * <p>Invariant: a number that a packet uses has an atom, of this packet or an earlier one. So the cache has at most
 * {@value #SIZE} atoms, and the decoder counts each that is new.
 */
final class AtomCache {
    private static final int SIZE = 2048;
    private static final Object[] NONE = {};
    private static final Object MISSING = new Object();

    private final Decoder decoder;
    private final Object[] atoms = new Object[SIZE];

    // Of the header that is read.
    private byte[] bytes;
    private int at;
    private int end;

    AtomCache(Decoder decoder) {
        this.decoder = decoder;
        Arrays.fill(atoms, MISSING);
    }

    /** Where the header that was read last has ended. */
    int position() {
        return at;
    }

    /** Reads the header from the position on: the atoms that the terms behind it refer to. */
    Object[] read(byte[] packet, int from, int to) {
        bytes = packet;
        at = from;
        end = to;
        try {
            int n = byte1();
            return n == 0 ? NONE : atoms(n);
        } finally {
            bytes = null;
        }
    }

    private Object[] atoms(int n) {
        int flags = at;
        skip(n / 2 + 1);
        boolean isLong = (half(flags, n) & 1) == 1;
        Object[] used = new Object[n];
        for (int i = 0; i < n; i++) {
            int flag = half(flags, i);
            int number = (flag & 7) << 8 | byte1();
            if ((flag & 8) != 0) {
                atoms[number] = atom(isLong ? byte1() << 8 | byte1() : byte1());
            }
            if (atoms[number] == MISSING) {
                throw new BadPacket("A packet refers to the atom " + number + " of the cache, which was never sent.");
            }
            used[i] = atoms[number];
        }
        return used;
    }

    /** Four bits: the even ones are the low ones of their byte. */
    private int half(int flags, int i) {
        return bytes[flags + i / 2] >> (i % 2) * 4 & 15;
    }

    private Object atom(int length) {
        int start = at;
        skip(length);
        return decoder.atom(bytes, start, length);
    }

    private int byte1() {
        skip(1);
        return bytes[at - 1] & 255;
    }

    private void skip(int n) {
        if (n > end - at) {
            throw new BadPacket("A packet ends within the atoms of its header.");
        }
        at += n;
    }
}
