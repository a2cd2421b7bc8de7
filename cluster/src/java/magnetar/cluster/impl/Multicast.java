package magnetar.cluster.impl;

import org.jgroups.Message;
import org.jgroups.conf.ClassConfigurator;
import org.jgroups.protocols.MPING;

/**
 * JGroups' discovery by multicast, for discovery alone. Its packets are from anywhere. JGroups takes each message in them
 * as if it had come by TCP, also a view.
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
