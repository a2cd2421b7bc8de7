package magnetar.erlang.wire;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Set;

/** The secret that Erlang nodes share. It is never sent: each side proves that it has it. */
public final class Cookie {
    private static final int MAX_LENGTH = 255; // a cookie is an atom

    private static final Set<PosixFilePermission> OF_OTHERS = PosixFilePermissions.fromString("---rwxrwx");

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

    /**
     * Reads a cookie from a file.
     *
     * @throws IOException if the file cannot be read, can be read by others, or has no cookie
     */
    public static Cookie read(Path file) throws IOException {
        try {
            checkPermissions(file);
            if (Files.size(file) > 2 * MAX_LENGTH) {
                throw new IOException("The cookie file " + file + " has more than " + 2 * MAX_LENGTH + " bytes: is it the right file?");
            }
            return of(Files.readString(file));
        } catch (NoSuchFileException e) {
            throw new IOException("There is no cookie file " + file + ": copy the .erlang.cookie of the other nodes, and run"
                    + " `chmod 600 " + file + "`.", e);
        } catch (IllegalArgumentException e) {
            throw new IOException("The cookie file " + file + " holds no cookie: copy the .erlang.cookie of the other nodes.", e);
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
