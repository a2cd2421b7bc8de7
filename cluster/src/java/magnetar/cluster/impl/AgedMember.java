package magnetar.cluster.impl;

import java.util.Comparator;
import magnetar.kernel.network.Member;

/**
 * A member and its age, as it has told them.
 *
 * @param age when it joined, in milliseconds since 1970 by its clock. It is made higher than the ages of all members that
 *     were there before
 */
record AgedMember(Member member, long age) {
    /** The oldest first. All members sort alike, also after a merge. */
    static final Comparator<AgedMember> BY_AGE = Comparator.comparingLong(AgedMember::age).thenComparingLong(aged -> aged.member.id());
}
