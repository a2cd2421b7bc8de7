package magnetar.cluster.impl;

import java.io.IOException;

/** A message that no node sends. The text says what it is. */
final class Unreadable extends IOException {
    private static final long serialVersionUID = 1;

    Unreadable(String message) {
        super(message);
    }
}
