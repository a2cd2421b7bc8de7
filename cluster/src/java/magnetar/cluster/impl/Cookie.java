package magnetar.cluster.impl;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** The secret that all nodes of a cluster share. It is never sent: each side proves that it has it. */
public final class Cookie {
    /** The fewest bytes. A shorter cookie could be guessed from one recorded handshake. */
    public static final int MIN_LENGTH = 16;

    private final byte[] secret;

    private Cookie(byte[] secret) {
        this.secret = secret;
    }

    /**
     * A cookie of these characters, without the white space around them.
     *
     * @throws IllegalArgumentException if they are too few
     */
    public static Cookie of(String text) {
        byte[] secret = text.strip().getBytes(StandardCharsets.UTF_8);
        if (secret.length < MIN_LENGTH) {
            throw new IllegalArgumentException("The cookie has " + secret.length + " bytes, and needs " + MIN_LENGTH
                    + " or more: take random ones, as from `openssl rand -hex 32`.");
        }
        return new Cookie(secret);
    }

    /** A key for another proof with this cookie, from which the cookie cannot be found. */
    public byte[] keyFor(String purpose) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(secret, "HmacSHA256"));
            return mac.doFinal(purpose.getBytes(StandardCharsets.UTF_8));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e); // each JDK has it
        }
    }

    byte[] secret() {
        return secret;
    }

    /** Does not show the secret. */
    @Override
    public String toString() {
        return "Cookie of " + secret.length + " bytes";
    }
}
