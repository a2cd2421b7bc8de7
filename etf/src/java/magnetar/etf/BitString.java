package magnetar.etf;

import java.util.Arrays;

/** A bit string of Erlang whose length is not a whole number of bytes. */
public final class BitString {

    private final byte[] bytes;
    private final int bits;

    /** The bytes, of whose last one only the first {@code bits} count: 1 to 7. The others are set to zero. */
    public BitString(byte[] bytes, int bits) {
        Range.check("The number of bits in the last byte, less one,", bits - 1, 6);
        if (bytes.length == 0) {
            throw new IllegalArgumentException("A bit string has a last byte; this array is empty.");
        }
        this.bytes = bytes.clone();
        this.bits = bits;
        this.bytes[bytes.length - 1] &= (byte) (0xff << 8 - bits);
    }

    /** A copy of the bytes. */
    public byte[] bytes() {
        return bytes.clone();
    }

    /** How many bits of the last byte count. */
    public int bits() {
        return bits;
    }

    byte[] shared() {
        return bytes;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof BitString b && bits == b.bits && Arrays.equals(bytes, b.bytes);
    }

    @Override
    public int hashCode() {
        return 31 * Arrays.hashCode(bytes) + bits;
    }

    @Override
    public String toString() {
        return "BitString[bits=" + (8L * (bytes.length - 1) + bits) + "]";
    }
}
