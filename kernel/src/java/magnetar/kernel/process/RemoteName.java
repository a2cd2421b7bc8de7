package magnetar.kernel.process;

/**
 * The address of the process that has a name on another node.
 *
 * @param peer the node
 * @param name the name of the process there
 * @param shown the address as the program has written it, for notices and reports
 */
public record RemoteName(Peer peer, Object name, Object shown) {
    @Override
    public String toString() {
        return String.valueOf(shown);
    }
}
