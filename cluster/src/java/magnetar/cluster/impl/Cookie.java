package magnetar.cluster.impl;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.GeneralSecurityException;
import java.util.Set;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** The secret that all nodes of a cluster share. It is never sent: each side proves that it has it. */
public final class Cookie {
    /** The fewest bytes. A shorter cookie could be guessed from one recorded handshake. */
    public static final int MIN_LENGTH = 16;

    private static final int MAX_LENGTH = 4096;

    private static final Set<PosixFilePermission> OF_OTHERS = PosixFilePermissions.fromString("---rwxrwx");

    private final byte[] secret;

    private Cookie(byte[] secret) {
        this.secret = secret;
    }

    /**
     * A cookie of these characters.
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

    /**
     * Reads a cookie from a file, without the white space around it.
     *
     * @throws IOException if the file cannot be read, can be read by others, is empty or too short
     */
    public static Cookie read(Path file) throws IOException {
        try {
            checkPermissions(file);
            if (Files.size(file) > MAX_LENGTH) {
                throw new IOException("The cookie file " + file + " has more than " + MAX_LENGTH
                        + " bytes: is it the right file?");
            }
            return of(Files.readString(file));
        } catch (NoSuchFileException e) {
            throw new IOException("There is no cookie file " + file + ": make one that all nodes share, as by"
                    + " `(umask 077; openssl rand -hex 32 > " + file + ")`.", e);
        } catch (IllegalArgumentException e) {
            throw new IOException("The cookie file " + file + " is empty, or has fewer than " + MIN_LENGTH
                    + " bytes: fill it, as by `openssl rand -hex 32 > " + file + "`.", e);
        }
    }

    private static void checkPermissions(Path file) throws IOException {
        Set<PosixFilePermission> permissions;
        try {
            permissions = Files.getPosixFilePermissions(file);
        } catch (UnsupportedOperationException e) {
            return; // a file system without them
        }
        if (permissions.stream().anyMatch(OF_OTHERS::contains)) {
            throw new IOException("The cookie file " + file + " is open to others than its owner ("
                    + PosixFilePermissions.toString(permissions) + "): run `chmod 600 " + file + "`.");
        }
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
