package magnetar.cluster.impl;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.function.Supplier;
import org.jgroups.Header;
import org.jgroups.conf.ClassConfigurator;

/** The type and a number of each message that {@link JGroupsNetwork} sends. Public, since JGroups makes it. */
public final class FrameHeader extends Header {
    /** The key of the header in a message. */
    static final short KEY = 2_713;

    private static final short MAGIC = 2_713;

    /** A frame; the number is its position. */
    static final byte FRAME = 1;

    /** All frames up to this position were delivered, or are lost. */
    static final byte ACKNOWLEDGE = 2;

    /**
     * Asks for an acknowledgement of this position, in order after the frames. This type and the lower ones are dropped
     * if they come from a member that was cut off.
     */
    static final byte PROBE = 3;

    /** The name of the sender, and its age as the number. */
    static final byte HELLO = 4;

    /** As HELLO, and asks for a HELLO. The age may be {@link #UNKNOWN}. */
    static final byte ASK = 5;

    /** Asks for a PONG. It is not sent again if its packet is lost. */
    static final byte PING = 6;

    /** Answers a PING, and is not sent again either. */
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
