package magnetar.cluster.impl;

import java.io.DataInput;
import java.io.IOException;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jgroups.ObjectMessage;
import org.jgroups.conf.ClassConfigurator;
import org.jgroups.util.Digest;
import org.jgroups.util.MutableDigest;
import org.jgroups.util.SeqnoList;
import org.jgroups.util.SizeStreamable;

/**
 * A message with an object of one of three classes. The protocols of {@link Stack} send them, to say which messages to
 * send again, and which have arrived. An object of another class is refused.
 */
final class KnownObjectMessage extends ObjectMessage {
    private static final Set<Short> CLASSES = Stream.of(SeqnoList.class, Digest.class, MutableDigest.class)
            .map(ClassConfigurator::getMagicNumber).collect(Collectors.toUnmodifiableSet());

    @Override
    public void readPayload(DataInput in) throws IOException, ClassNotFoundException {
        if (in.readByte() == 0) {
            obj = null;
            return;
        }
        short number = in.readShort();
        if (!CLASSES.contains(number)) {
            throw new Unreadable("a message with an object of the class " + number);
        }
        SizeStreamable object = ClassConfigurator.create(number);
        object.readFrom(in);
        obj = object;
    }
}
