package magnetar.kernel.process;

/**
 * A reference of a node that numbers its references by other words than this library does, as nodes of Erlang do. It is
 * equal to another one with the same words from the same node.
 *
 * <p>Its first two words are its id. What is sent to it goes to its node, which knows what it stands for.
 */
public final class ForeignRef extends Ref {
    private final int[] words;
    private final int[] more; // what tells it from others with the same id and creation
    private final boolean callTag;

    /**
     * A reference of the peer that has at least one word.
     *
     * @param address whether it may be an alias
     * @param callTag see {@link #isCallTag}
     */
    public ForeignRef(Peer peer, int[] words, boolean address, boolean callTag) {
        super(idOf(words), peer.creation(), peer.stand(), 0);
        this.words = words.clone();
        this.more = words.clone();
        this.more[0] = peer.stand().node();
        this.callTag = callTag;
        this.alias = address ? Alias.OPEN : Alias.NONE;
    }

    private static long idOf(int[] words) {
        return words[0] & 0xffffffffL | (words.length == 1 ? 0 : (long) words[1] << 32);
    }

    /** A copy of its words. */
    public int[] words() {
        return words.clone();
    }

    /** True if it came as the tag of a call that is answered at an alias. The transport writes it in that form again. */
    public boolean isCallTag() {
        return callTag;
    }

    @Override
    int[] more() {
        return more;
    }

    @Override
    public String text() {
        StringBuilder text = new StringBuilder(maker().nodeName());
        for (int word : words) {
            text.append('.').append(Integer.toUnsignedString(word));
        }
        return text.toString();
    }
}
