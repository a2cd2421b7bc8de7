package magnetar.erlang.wire;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** The secret that Erlang nodes share. It is never sent: each side proves that it has it. */
public final class Cookie {
    private static final int MAX_LENGTH = 255; // a cookie is an atom

    private final byte[] secret;

    private Cookie(byte[] secret) {
        this.secret = secret;
    }

    /**
     * A cookie of these characters, without the white space around them.
     *
     * @throws IllegalArgumentException if it has no characters, or too many
     */
    public static Cookie of(String text) {
        String stripped = text.strip();
        if (stripped.isEmpty() || stripped.codePointCount(0, stripped.length()) > MAX_LENGTH) {
            throw new IllegalArgumentException("A cookie has 1 to " + MAX_LENGTH + " characters; this one has "
                    + stripped.codePointCount(0, stripped.length()) + ".");
        }
        return new Cookie(stripped.getBytes(StandardCharsets.UTF_8));
    }

    /** The answer to a challenge of the other side. */
    byte[] digest(int challenge) {
        try {
            MessageDigest md5 = MessageDigest.getInstance("MD5");
            md5.update(secret);
            return md5.digest(Integer.toUnsignedString(challenge).getBytes(StandardCharsets.US_ASCII));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // each JDK has it
        }
    }

    /** True if this is the answer to the challenge. Takes the same time for each wrong one. */
    boolean isAnswer(int challenge, byte[] answer) {
        return MessageDigest.isEqual(digest(challenge), answer);
    }

    /** Does not show the secret. */
    @Override
    public String toString() {
        return "Cookie";
    }
}
