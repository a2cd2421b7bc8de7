package magnetar.erlang.wire;

import java.io.IOException;

/** The other side is not let in, or does not let this node in. The sentence says why. */
final class Refused extends IOException {
    private static final long serialVersionUID = 1L;

    Refused(String sentence) {
        super(sentence);
    }
}
