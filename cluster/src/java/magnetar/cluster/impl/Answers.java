package magnetar.cluster.impl;

import java.util.Collection;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Which members answer. In each round, a member asks all others. A member that has not answered for some rounds is absent.
 *
 * <p>JGroups' own detector is not enough. It acts only if the coordinator misses a member, so two others that are cut
 * off from each other would stay in each other's view. And it hears only one direction. An answer needs both, so each
 * side notices a loss in either.
 *
 * <p>Rounds are counted, not time. After a pause of this JVM, the others have not missed more than one round.
 *
 * @param <M> members
 */
final class Answers<M> {
    private final int limit;
    private final Map<M, Integer> missed = new ConcurrentHashMap<>();

    /** A member is absent if it has missed more than so many rounds. */
    Answers(int limit) {
        this.limit = limit;
    }

    /** Begins a round with these members. */
    void begin(Collection<M> members) {
        missed.keySet().retainAll(members);
        members.forEach(member -> missed.merge(member, 1, Integer::sum));
    }

    /** A member has answered. Returns true if it was absent before. */
    boolean answered(M member) {
        Integer before = missed.replace(member, 0);
        return before != null && before > limit;
    }

    /** The members that are absent. */
    Set<M> absent() {
        Set<M> absent = new HashSet<>();
        missed.forEach((member, rounds) -> {
            if (rounds > limit) {
                absent.add(member);
            }
        });
        return absent;
    }
}
