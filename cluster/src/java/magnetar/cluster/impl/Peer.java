package magnetar.cluster.impl;

import java.util.Comparator;
import magnetar.kernel.network.Member;

/**
 * What a member has told of itself.
 *
 * @param age when it joined: milliseconds since 1970 by its clock, but more than of all members that were there before
 */
record Peer(Member member, long age) {
    /** The oldest first. All members have the same order, also after a merge. */
    static final Comparator<Peer> BY_AGE = Comparator.comparingLong(Peer::age).thenComparingLong(peer -> peer.member.id());
}
