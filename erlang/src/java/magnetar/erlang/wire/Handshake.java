package magnetar.erlang.wire;

import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * The handshake of version 6: names and flags, then a challenge in each direction, whose answer proves the cookie. The
 * challenges are random, and the cookie is never sent.
 *
 * <p>Invariant: a side that has an {@link Other} knows that the other side has the cookie. Nothing that a side says before is
 * believed: no connection ends, and no name is held, because of it.
 *
 * <p>Source: the chapter "Distribution Handshake" of Erlang's distribution protocol.
 */
final class Handshake {
    /** How the side that was dialled goes on. */
    enum Status {
        OK,
        /** This side dials the other as well, and gives that up. */
        OK_SIMULTANEOUS,
        /** This side dials the other as well, and the other gives this one up. */
        NOK,
        /** The name is not accepted. */
        NOT_ALLOWED,
        /** There is a connection with a node of this name, which the other has to give up. */
        ALIVE;

        private final String text = name().toLowerCase(java.util.Locale.ROOT);
    }

    /** The other side. */
    record Other(String name, long flags, long creation) {}

    private static final int LONGEST_NAME = 1024;
    private static final int LONGEST_STATUS = 64;
    private static final int DIGEST = 16;
    private static final SecureRandom RANDOM = new SecureRandom();

    private final Letters letters;
    private final Settings own;

    /** A handshake on the socket, which has to end by the deadline. */
    Handshake(Socket socket, Settings own, long deadline) throws IOException {
        this.letters = new Letters(socket, deadline);
        this.own = own;
    }

    // --- the side that dials -----------------------------------------------------------------------------------------

    /**
     * Greets the node of this name; null if that one dials this node at the same time, and goes on with that.
     *
     * @param wanted is asked if that node says that it has a connection: false if this node has one by now
     */
    Other dial(String name, BooleanSupplier wanted) throws IOException {
        byte[] me = bytes(own.name());
        letters.send(buffer('N', me).putLong(own.flags()).putInt((int) own.creation()).putShort((short) me.length).put(me));
        if (!mayGoOn(wanted)) {
            return null;
        }
        ByteBuffer m = expect('N', LONGEST_NAME, 19);
        long flags = m.getLong();
        int challenge = m.getInt();
        long creation = m.getInt() & 0xffffffffL;
        Other other = checked(text(m), flags, creation);
        if (!other.name.equals(name)) {
            throw new Refused("It says that its name is " + other.name + ".");
        }
        int mine = RANDOM.nextInt();
        letters.send(buffer('r', me).putInt(mine).put(own.cookie().digest(challenge)));
        checkAnswer(expect('a', LONGEST_NAME, 1 + DIGEST), mine);
        letters.end();
        return other;
    }

    private boolean mayGoOn(BooleanSupplier wanted) throws IOException {
        String status = StandardCharsets.ISO_8859_1.decode(expect('s', LONGEST_STATUS, 1)).toString();
        switch (status) {
            case "ok", "ok_simultaneous" -> {
                return true;
            }
            case "nok" -> {
                return false;
            }
            case "alive" -> { // an old connection, of which this side knows that it has ended; or one that it has dialled meanwhile
                boolean goOn = wanted.getAsBoolean();
                letters.send(ByteBuffer.allocate(8).put(bytes("s" + goOn)));
                return goOn;
            }
            case "not_allowed" -> throw new Refused("It does not let the node " + own.name() + " in.");
            default -> throw new Refused("It has answered the name with the unknown status " + quoted(status) + ".");
        }
    }

    // --- the side that is dialled ------------------------------------------------------------------------------------

    /**
     * Answers the greeting; null if this side goes on with a connection that it dials itself.
     *
     * @param proved is told the name of the node when that has proved the cookie, before the node knows that it is let in
     */
    Other accept(Function<String, Status> judge, Consumer<String> proved) throws IOException {
        ByteBuffer m = expect('N', LONGEST_NAME, 15);
        long flags = m.getLong();
        long creation = m.getInt() & 0xffffffffL;
        Other other = checked(text(m), flags, creation);
        Status status = judge.apply(other.name);
        byte[] me = bytes(own.name());
        letters.send(ByteBuffer.allocate(LONGEST_STATUS).put((byte) 's').put(bytes(status.text)));
        if (status == Status.NOK) {
            return null;
        }
        if (status == Status.NOT_ALLOWED) {
            throw new Refused("It has the name " + quoted(other.name) + ", which is no name of another node.");
        }
        if (status == Status.ALIVE && !"true".equals(StandardCharsets.ISO_8859_1.decode(expect('s', LONGEST_STATUS, 1)).toString())) {
            return null;
        }
        int mine = RANDOM.nextInt();
        letters.send(buffer('N', me).putLong(own.flags()).putInt(mine).putInt((int) own.creation()).putShort((short) me.length).put(me));
        ByteBuffer answer = expect('r', LONGEST_NAME, 5 + DIGEST);
        int challenge = answer.getInt();
        checkAnswer(answer, mine);
        proved.accept(other.name);
        letters.send(buffer('a', me).put(own.cookie().digest(challenge)));
        letters.end();
        return other;
    }

    // --- both --------------------------------------------------------------------------------------------------------

    private static ByteBuffer buffer(char tag, byte[] name) {
        return ByteBuffer.allocate(32 + name.length).put((byte) tag);
    }

    /** The next message without its tag, which has to be this one. It has at least so many bytes with its tag. */
    private ByteBuffer expect(char tag, int most, int least) throws IOException {
        ByteBuffer m = letters.next(most);
        int found = m.get();
        if (found != tag) {
            throw new Refused(found == 'n' ? "It speaks version 5 of the handshake only, as nodes before OTP 23 do."
                    : "It has sent the message " + (found & 255) + " of the handshake where " + (int) tag + " has to be.");
        }
        if (m.limit() < least) {
            throw new Refused("It has sent a message of the handshake that is too short.");
        }
        return m;
    }

    /** The name, whose length stands before it. What follows it is for later versions. */
    private static String text(ByteBuffer m) throws IOException {
        int length = m.getShort() & 0xffff;
        if (length > m.remaining()) {
            throw new Refused("It has sent a name that is cut off.");
        }
        String name = StandardCharsets.UTF_8.decode(m.slice(m.position(), length)).toString();
        if (!Settings.isName(name)) {
            throw new Refused("It has the name " + quoted(name) + ", which is not of the form name@host.");
        }
        return name;
    }

    private static Other checked(String name, long flags, long creation) throws IOException {
        long meant = Flags.meant(flags);
        if (Flags.missing(meant) != 0) {
            throw new Refused("It is the node " + name + " of an OTP before 25, or not of Erlang. It lacks the flags 0x"
                    + Long.toHexString(Flags.missing(meant)) + ".");
        }
        return new Other(name, meant, creation);
    }

    private void checkAnswer(ByteBuffer m, int challenge) throws IOException {
        byte[] digest = new byte[Math.min(DIGEST, m.remaining())];
        m.get(digest);
        if (!own.cookie().isAnswer(challenge, digest)) {
            throw new Refused("It has another cookie than " + own.name() + ". Give both nodes the same one.");
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String quoted(String text) {
        return "\"" + text.replaceAll("\\p{Cntrl}", "?") + "\"";
    }
}
