package magnetar.kernel.network;

/**
 * A node as a member of a network.
 *
 * @param name the name that the node has chosen, which another member may have as well
 * @param id a number that no other member has; a node that has left and joins again has another one
 */
public record Member(String name, long id) {
    @Override
    public String toString() {
        return name + "#" + Long.toHexString(id);
    }
}
