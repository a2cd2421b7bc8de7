package magnetar.cluster.impl;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * How two ends of a connection prove to each other that they have the cookie, before JGroups sees a byte.
 *
 * <p>The dialing side sends {@link #HELLO} and 32 random bytes; the accepting side answers with the same of its own.
 * Then the dialing side sends its proof, and gets a proof only if its own was right. A proof is an HMAC-SHA256 with
 * the cookie as the key, over
 * <ul>
 *   <li>the role of the side that makes it, so that a proof sent back proves nothing;
 *   <li>both random values, so that a recorded proof is of no use;
 *   <li>the name of the cluster;
 *   <li>the address that was dialed, which the accepting side compares with the address that it tells the others.
 *       So a program at an address that a node dials cannot pass the proof on to another node;
 *   <li>with TLS, a value that only the two ends of this very TLS connection know, as RFC 9266 does.
 * </ul>
 * Without TLS, a program that can change the bytes on their way can take over a connection after its handshake.
 */
final class Handshake {
    private static final byte[] HELLO = "MGN1".getBytes(StandardCharsets.US_ASCII);

    private static final int RANDOM = 32;
    private static final int PROOF = 32;
    private static final String ALGORITHM = "HmacSHA256";

    private static final SecureRandom random = new SecureRandom();

    private final Cookie cookie;
    private final String cluster;

    Handshake(Cookie cookie, String cluster) {
        this.cookie = cookie;
        this.cluster = cluster;
    }

    /** Why a handshake failed, as the rest of a sentence. */
    static final class Refused extends IOException {
        private static final long serialVersionUID = 1;

        Refused(String message) {
            super(message);
        }
    }

    /** Proves ourselves to the other side at the `dialed` address, and then checks its proof. */
    void dial(InputStream in, OutputStream out, String dialed, byte[] binding) throws IOException {
        byte[] ours = hello(out);
        byte[] theirs = readHello(in);
        write(out, proof("dial", ours, theirs, dialed, binding));
        byte[] proof;
        try {
            proof = read(in, PROOF);
        } catch (EOFException e) {
            throw new Refused("it closed the connection when it saw our proof");
        }
        check(proof, proof("accept", ours, theirs, dialed, binding));
    }

    /** Checks the proof of the other side, which dialed our `address`, and then proves ourselves. */
    void accept(InputStream in, OutputStream out, String address, byte[] binding) throws IOException {
        byte[] theirs = readHello(in);
        byte[] ours = hello(out);
        check(read(in, PROOF), proof("dial", theirs, ours, address, binding));
        write(out, proof("accept", theirs, ours, address, binding));
    }

    private static byte[] hello(OutputStream out) throws IOException {
        byte[] hello = Arrays.copyOf(HELLO, HELLO.length + RANDOM);
        byte[] value = new byte[RANDOM];
        random.nextBytes(value);
        System.arraycopy(value, 0, hello, HELLO.length, RANDOM);
        write(out, hello);
        return value;
    }

    private static byte[] readHello(InputStream in) throws IOException {
        if (!Arrays.equals(HELLO, read(in, HELLO.length))) {
            throw new Refused("it is not a node of a Magnetar cluster, or of another version");
        }
        return read(in, RANDOM);
    }

    private static void check(byte[] proof, byte[] expected) throws Refused {
        if (!MessageDigest.isEqual(proof, expected)) {
            throw new Refused("its proof is wrong");
        }
    }

    private byte[] proof(String role, byte[] dialing, byte[] accepting, String address, byte[] binding) {
        try {
            Mac mac = Mac.getInstance(ALGORITHM);
            mac.init(new SecretKeySpec(cookie.secret(), ALGORITHM));
            add(mac, ("magnetar cluster " + role).getBytes(StandardCharsets.UTF_8));
            add(mac, dialing);
            add(mac, accepting);
            add(mac, cluster.getBytes(StandardCharsets.UTF_8));
            add(mac, address.getBytes(StandardCharsets.UTF_8));
            add(mac, binding);
            return mac.doFinal();
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("Every JDK has " + ALGORITHM + ".", e);
        }
    }

    /** Adds the length first, so that two parts cannot be read as two others. */
    private static void add(Mac mac, byte[] part) {
        int length = part.length;
        mac.update(new byte[] {(byte) (length >> 24), (byte) (length >> 16), (byte) (length >> 8), (byte) length});
        mac.update(part);
    }

    private static void write(OutputStream out, byte[] bytes) throws IOException {
        out.write(bytes);
        out.flush();
    }

    private static byte[] read(InputStream in, int length) throws IOException {
        byte[] bytes = in.readNBytes(length);
        if (bytes.length < length) {
            throw new EOFException("it closed the connection");
        }
        return bytes;
    }
}
