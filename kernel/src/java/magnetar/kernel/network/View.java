package magnetar.kernel.network;

import java.util.List;

/**
 * The members that one member can reach, as it believes.
 *
 * @param members the oldest first, the member itself among them
 * @param merged true if this view joins members that had different views before
 */
public record View(List<Member> members, boolean merged) {
    public View {
        members = List.copyOf(members);
    }
}
