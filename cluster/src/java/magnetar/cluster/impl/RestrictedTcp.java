package magnetar.cluster.impl;

import java.io.DataInput;
import java.io.IOException;
import org.jgroups.Address;
import org.jgroups.BytesMessage;
import org.jgroups.EmptyMessage;
import org.jgroups.Message;
import org.jgroups.PhysicalAddress;
import org.jgroups.Version;
import org.jgroups.protocols.TCP;
import org.jgroups.util.AsciiString;
import org.jgroups.util.MessageBatch;
import org.jgroups.util.Util;

/**
 * JGroups' TCP, with {@link Writers}, restricted to three types of messages: with bytes, empty, and
 * {@link KnownObjectMessage}. JGroups itself would make objects of classes that the bytes name, in part with Java's
 * deserialisation. A message of another type ends its connection.
 */
final class RestrictedTcp extends TCP {
    private final Cuts cuts;
    private final Refusals refusals;
    private final Writers writers = new Writers((to, buffer) -> send(to, buffer, 0, buffer.length));

    RestrictedTcp(Cuts cuts, Refusals refusals) {
        this.cuts = cuts;
        this.refusals = refusals;
    }

    @Override
    public void sendUnicast(PhysicalAddress to, byte[] data, int offset, int length) {
        if (!cuts.all && !isCut(to)) {
            writers.write(to, data, offset, length);
        }
    }

    private boolean isCut(PhysicalAddress to) {
        for (Address member : cuts.to) {
            if (to.equals(getPhysicalAddressFromCache(member))) {
                return true;
            }
        }
        return false;
    }

    @Override
    public void init() throws Exception {
        super.init();
        diag_handler.setEnabled(false); // it listens for requests of anyone
    }

    @Override
    public void stop() {
        writers.stop();
        super.stop();
    }

    @Override
    public void receive(Address sender, DataInput in, int length) throws IOException {
        try {
            receive(in);
        } catch (Unreadable | ClassNotFoundException | RuntimeException e) {
            refusals.log("The connection to " + sender + " was closed, since " + e.getMessage()
                    + " came from it, which no node of this version sends. Let all nodes run the same version.");
            throw new IOException("closed", e);
        }
    }

    private void receive(DataInput in) throws IOException, ClassNotFoundException {
        if (!Version.isBinaryCompatible(in.readShort())) {
            throw new Unreadable("a message of another version of JGroups");
        }
        byte flags = in.readByte();
        boolean toAll = (flags & MULTICAST) != 0;
        if ((flags & LIST) != 0) {
            receiveBatches(in, toAll);
        } else {
            receiveOne(in, toAll);
        }
    }

    private void receiveOne(DataInput in, boolean toAll) throws IOException, ClassNotFoundException {
        Message message = make(in.readShort());
        message.readFrom(in);
        if (toAll || !unicastDestMismatch(message.getDest())) {
            msg_processing_policy.process(message, message.isFlagSet(Message.Flag.OOB));
            msg_stats.received(message);
        }
    }

    private void receiveBatches(DataInput in, boolean toAll) throws IOException, ClassNotFoundException {
        Address to = Util.readAddress(in);
        Address from = Util.readAddress(in);
        AsciiString cluster = readName(in);
        MessageBatch[] batches = new MessageBatch[2];
        for (int left = in.readInt(); left > 0; left--) {
            Message message = make(in.readShort()).setDest(to).setSrc(from);
            message.readFrom(in);
            int index = message.isFlagSet(Message.Flag.OOB) ? 1 : 0;
            if (batches[index] == null) {
                MessageBatch.Mode mode = index == 1 ? MessageBatch.Mode.OOB : MessageBatch.Mode.REG;
                batches[index] = new MessageBatch(to, from, cluster, toAll, mode, Math.min(left, 1_024));
            }
            batches[index].add(message);
        }
        for (int index = 1; index >= 0; index--) {
            if (batches[index] != null) {
                msg_stats.received(batches[index]);
                processBatch(batches[index], index == 1);
            }
        }
    }

    private static AsciiString readName(DataInput in) throws IOException {
        short length = in.readShort();
        if (length < 0) {
            return null;
        }
        byte[] name = new byte[length];
        in.readFully(name);
        return new AsciiString(name);
    }

    private static Message make(short type) throws IOException {
        return switch (type) {
            case Message.BYTES_MSG -> new BytesMessage();
            case Message.EMPTY_MSG -> new EmptyMessage();
            case Message.OBJ_MSG -> new KnownObjectMessage();
            default -> throw new Unreadable("a message of the type " + type);
        };
    }
}
