package magnetar.kernel.network;

/**
 * A node as a member of a network.
 *
 * @param name the name that the node has chosen, which another member may have as well
 * @param id a number that no other member has, also not the same node after it has left and joined again
 */
public record Member(String name, long id) {
    @Override
    public String toString() {
        return name + "#" + Long.toHexString(id);
    }
}
