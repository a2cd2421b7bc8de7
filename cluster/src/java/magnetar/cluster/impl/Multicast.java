package magnetar.cluster.impl;

import org.jgroups.Message;
import org.jgroups.conf.ClassConfigurator;
import org.jgroups.protocols.MPING;

/**
 * JGroups' discovery by multicast, without messages of other protocols. Its packets may come from any program, and JGroups
 * would handle each message in them, such as a view, as if it had come by TCP.
 */
final class Multicast extends MPING {
    private volatile Thread reader;

    Multicast() {
        setId(ClassConfigurator.getProtocolId(MPING.class));
    }

    @Override
    public void run() {
        reader = Thread.currentThread();
        super.run();
    }

    @Override
    public Object up(Message message) {
        return Thread.currentThread() == reader && message.getHeader(getId()) == null ? null : super.up(message);
    }
}
