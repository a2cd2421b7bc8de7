package magnetar.etf;

import java.util.Arrays;
import java.util.Objects;

/** A reference of Erlang: the words that tell it from others of its node. */
public final class Reference {

    static final int MOST_WORDS = 5;

    private final String node;
    private final long creation;
    private final int[] words;

    /** A reference with one to five words of 32 bits, and an unsigned creation of 32 bits. */
    public Reference(String node, long creation, int... words) {
        this.node = Objects.requireNonNull(node, "node");
        this.creation = Range.check("The creation of a reference", creation, Range.UNSIGNED_INT);
        Range.check("The number of words of a reference, less one,", words.length - 1, MOST_WORDS - 1);
        this.words = words.clone();
    }

    public String node() {
        return node;
    }

    public long creation() {
        return creation;
    }

    /** A copy of the words. */
    public int[] words() {
        return words.clone();
    }

    public int count() {
        return words.length;
    }

    public int word(int index) {
        return words[index];
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Reference r && creation == r.creation && node.equals(r.node)
                && Arrays.equals(words, r.words);
    }

    @Override
    public int hashCode() {
        return 31 * (31 * node.hashCode() + Long.hashCode(creation)) + Arrays.hashCode(words);
    }

    @Override
    public String toString() {
        return "Reference[node=" + node + ", creation=" + creation + ", words="
                + Arrays.toString(words) + "]";
    }
}
