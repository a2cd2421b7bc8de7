package magnetar.cluster.impl;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jgroups.Address;
import org.jgroups.conf.ClassConfigurator;
import org.jgroups.protocols.FD_ALL3;

/**
 * JGroups' detector of silent members, which also tells what this member believes. JGroups itself acts only if the
 * coordinator believes it. So with a cut between two other members, they would stay in each other's view.
 */
final class Detector extends FD_ALL3 {
    private final Runnable changed;

    Detector(Runnable changed) {
        this.changed = changed;
        setId(ClassConfigurator.getProtocolId(FD_ALL3.class));
    }

    /** The members from which nothing has come for too long. */
    synchronized Set<Address> silent() {
        return new HashSet<>(suspected_mbrs);
    }

    @Override
    protected void suspect(List<Address> suspects) {
        super.suspect(suspects);
        changed.run();
    }

    @Override
    protected boolean unsuspect(Address member) {
        boolean was = super.unsuspect(member);
        if (was) {
            changed.run();
        }
        return was;
    }
}
