package magnetar.cluster.impl;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.jgroups.Address;
import org.jgroups.Message;
import org.jgroups.stack.Protocol;
import org.jgroups.util.MessageBatch;

/** Stands directly above the transport, and drops what comes from members that are cut off. */
final class Cuts extends Protocol {
    /** Nothing is taken from these. */
    final Set<Address> from = ConcurrentHashMap.newKeySet();

    /** Nothing is sent to these, see {@link RestrictedTcp}. */
    final Set<Address> to = ConcurrentHashMap.newKeySet();

    /** Nothing is sent and nothing taken. */
    volatile boolean all;

    @Override
    public Object up(Message message) {
        return dropped(message) ? null : up_prot.up(message);
    }

    @Override
    public void up(MessageBatch batch) {
        if (all || !from.isEmpty()) {
            batch.removeIf(this::dropped, true);
        }
        if (!batch.isEmpty()) {
            up_prot.up(batch);
        }
    }

    private boolean dropped(Message message) {
        return all || !from.isEmpty() && message.getSrc() != null && from.contains(message.getSrc());
    }
}
