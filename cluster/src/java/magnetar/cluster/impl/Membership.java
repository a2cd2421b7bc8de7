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
 * Which members are shown to the program: the view of JGroups, without members that do not answer, are cut off, or
 * have not told their name. Only for the loop of {@link JGroupsNetwork}.
 */
final class Membership {
    private static final int REMEMBERED = 1_024; // members, also ones that have left and may come back

    private final Address self;
    private final Map<Address, AgedMember> known = remembered();

    private List<Address> members = List.of();
    private boolean merged; // JGroups has merged views, and no view has told it
    private final Set<Address> apart = Collections.newSetFromMap(remembered()); // have been in another view, and were not shown since
    private final Set<Address> shown = new HashSet<>(); // in the view told last

    Membership(Address self) {
        this.self = self;
    }

    /** A map that drops its least recently used entries. */
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

    void introduce(Address address, AgedMember aged) {
        known.put(address, aged);
    }

    AgedMember known(Address address) {
        return known.get(address);
    }

    /** These members, without the ones whose name is known. */
    List<Address> unknown(Collection<Address> among) {
        List<Address> unknown = new ArrayList<>(among);
        unknown.removeIf(known::containsKey);
        return unknown;
    }

    /** The age of a member that joins now: the time in milliseconds, and more than the ages of these members. */
    long ageAfter(Collection<Address> elders) {
        long age = System.currentTimeMillis();
        for (Address elder : elders) {
            AgedMember aged = known.get(elder);
            age = aged == null ? age : Math.max(age, aged.age() + 1);
        }
        return age;
    }

    /** The next view to tell, without the absent members; null if nothing has changed. */
    View next(Set<Address> absent) {
        Map<Address, AgedMember> present = new HashMap<>();
        for (Address address : members) {
            AgedMember aged = known.get(address);
            if (aged != null && (address.equals(self) || !absent.contains(address))) {
                present.put(address, aged);
            }
        }
        boolean isMerge = merged && known.keySet().containsAll(members) || present.keySet().stream().anyMatch(apart::contains);
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

    private static List<Member> sorted(Collection<AgedMember> known) {
        return known.stream().sorted(AgedMember.BY_AGE).map(AgedMember::member).toList();
    }
}
