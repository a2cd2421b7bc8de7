package magnetar.erlang.wire;

import java.io.ByteArrayOutputStream;
import java.util.HashMap;
import java.util.Map;

/**
 * Messages that come in parts, between which others may come. The first part has the atoms of all, and the number of the
 * parts; the last one has the number 1.
 *
 * <p>Invariant: the parts that are kept have at most as many bytes as a packet may have, and are of at most
 * {@value #MOST} messages. Only bytes that have come are kept: no announced length takes memory.
 */
final class Fragments {
    private static final int MOST = 4096;

    private final int largest;
    private final Map<Long, Message> open = new HashMap<>();
    private long held;

    /** No parts, and room for so many bytes. */
    Fragments(int largest) {
        this.largest = largest;
    }

    /** A message, of which parts have come. */
    static final class Message extends ByteArrayOutputStream {
        private final Object[] atoms;
        private long next;

        private Message(Object[] atoms, long next) {
            this.atoms = atoms;
            this.next = next;
        }

        Object[] atoms() {
            return atoms;
        }

        /** The bytes, which are not copied; the first {@link #size} count. */
        byte[] bytes() {
            return buf;
        }
    }

    /** Takes the first part of a message that has others. */
    void begin(long sequence, long number, Object[] atoms, byte[] bytes, int from, int to) {
        if (number < 2) {
            throw new BadPacket("A message of " + number + " parts has begun.");
        }
        Message m = new Message(atoms, number - 1);
        if (open.size() == MOST || open.putIfAbsent(sequence, m) != null) {
            throw new BadPacket("A message in parts has begun twice, or more than " + MOST + " at once.");
        }
        add(m, bytes, from, to);
    }

    /** Takes a further part. Returns the message if it is complete, else null. */
    Message add(long sequence, long number, byte[] bytes, int from, int to) {
        Message m = open.get(sequence);
        if (m == null || m.next != number) {
            throw new BadPacket("The part " + number + " of a message has come where another one has to be.");
        }
        add(m, bytes, from, to);
        m.next--;
        if (m.next > 0) {
            return null;
        }
        open.remove(sequence);
        held -= m.size();
        return m;
    }

    private void add(Message m, byte[] bytes, int from, int to) {
        held += to - from;
        if (held > largest) {
            throw new BadPacket("The parts of messages have more than " + largest + " bytes. Send less at once.");
        }
        m.write(bytes, from, to - from);
    }

    /** How many messages are not complete. */
    int size() {
        return open.size();
    }
}
