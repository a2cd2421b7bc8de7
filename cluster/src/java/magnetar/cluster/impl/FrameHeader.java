package magnetar.cluster.impl;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.function.Supplier;
import org.jgroups.Header;
import org.jgroups.conf.ClassConfigurator;

/** What a message of ours is. Public, since JGroups makes it. */
public final class FrameHeader extends Header {
    /** The key of the header in a message. */
    static final short KEY = 2_713;

    private static final short MAGIC = 2_713;

    /** A frame; the number is its position. */
    static final byte FRAME = 1;

    /** All frames up to this position were delivered, or are lost. */
    static final byte ACKNOWLEDGE = 2;

    /** Asks for an acknowledgement of this position, in order after the frames. The last type that a cut member cannot send. */
    static final byte PROBE = 3;

    /** The name of the sender, and its age as the number. */
    static final byte HELLO = 4;

    /** The same, and asks for a HELLO. The age may be {@link #UNKNOWN}. */
    static final byte ASK = 5;

    /** Asks whether the member is there. Sent once, and lost with its packet. */
    static final byte PING = 6;

    /** The answer. */
    static final byte PONG = 7;

    static final long UNKNOWN = -1;

    static {
        ClassConfigurator.addIfAbsent(MAGIC, FrameHeader.class);
    }

    byte type;
    long number;

    /** For JGroups, which reads the rest. */
    public FrameHeader() {}

    FrameHeader(byte type, long number) {
        this.type = type;
        this.number = number;
    }

    /** Makes JGroups know the header before a message has one. */
    static void register() {}

    @Override
    public short getMagicId() {
        return MAGIC;
    }

    @Override
    public Supplier<? extends Header> create() {
        return FrameHeader::new;
    }

    @Override
    public int serializedSize() {
        return Byte.BYTES + Long.BYTES;
    }

    @Override
    public void writeTo(DataOutput out) throws IOException {
        out.writeByte(type);
        out.writeLong(number);
    }

    @Override
    public void readFrom(DataInput in) throws IOException {
        type = in.readByte();
        number = in.readLong();
    }
}
