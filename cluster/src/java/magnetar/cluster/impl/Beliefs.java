package magnetar.cluster.impl;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import magnetar.kernel.network.Member;
import magnetar.kernel.network.View;
import org.jgroups.Address;
import org.jgroups.MergeView;

/**
 * What a member believes about the others: the view of JGroups, less the members that do not answer, that it
 * has cut off, or that it does not yet know by name. For the thread of the events of one network only.
 */
final class Beliefs {
    private static final int REMEMBERED = 1_024; // peers, also those that have left and may come back

    private final Address self;
    private final Map<Address, Peer> peers = remembered();

    private List<Address> members = List.of();
    private boolean merged; // JGroups has merged views, and this was not told yet
    private final Set<Address> apart = Collections.newSetFromMap(remembered()); // have had another view, and are not told since
    private final Set<Address> shown = new HashSet<>(); // in the view told last

    Beliefs(Address self) {
        this.self = self;
    }

    /** A map of the newest entries. */
    static <V> Map<Address, V> remembered() {
        return new LinkedHashMap<>(16, 0.75f, true) {
            @Override
            protected boolean removeEldestEntry(Map.Entry<Address, V> eldest) {
                return size() > REMEMBERED;
            }
        };
    }

    /** Takes a new view of JGroups. Returns the members that are new in it. */
    List<Address> accept(org.jgroups.View view) {
        List<Address> fresh = new ArrayList<>(view.getMembers());
        fresh.removeAll(members);
        members = view.getMembers();
        if (view instanceof MergeView) {
            merged = true;
            apart.addAll(fresh);
        }
        return fresh;
    }

    List<Address> members() {
        return members;
    }

    void introduce(Address address, Peer peer) {
        peers.put(address, peer);
    }

    Peer peer(Address address) {
        return peers.get(address);
    }

    /** The members without a name, from these. */
    List<Address> unknown(Collection<Address> among) {
        List<Address> unknown = new ArrayList<>(among);
        unknown.removeIf(peers::containsKey);
        return unknown;
    }

    /** An age that is higher than of these members, so that they count as older. */
    long ageAfter(Collection<Address> elders) {
        long age = System.currentTimeMillis();
        for (Address elder : elders) {
            Peer peer = peers.get(elder);
            age = peer == null ? age : Math.max(age, peer.age() + 1);
        }
        return age;
    }

    /** The next view to tell; null if there is nothing new. `absent` are members not to show. */
    View next(Set<Address> absent) {
        Map<Address, Peer> present = new HashMap<>();
        for (Address address : members) {
            Peer peer = peers.get(address);
            if (peer != null && (address.equals(self) || !absent.contains(address))) {
                present.put(address, peer);
            }
        }
        boolean isMerge = merged && peers.keySet().containsAll(members) || present.keySet().stream().anyMatch(apart::contains);
        if (!present.containsKey(self) || !isMerge && shown.equals(present.keySet())) {
            return null;
        }
        shown.removeAll(present.keySet());
        apart.addAll(shown);
        apart.removeAll(present.keySet());
        shown.clear();
        shown.addAll(present.keySet());
        merged &= !isMerge;
        return new View(sorted(present.values()), isMerge);
    }

    private static List<Member> sorted(Collection<Peer> peers) {
        return peers.stream().sorted(Peer.BY_AGE).map(Peer::member).toList();
    }
}
