package magnetar.erlang.wire;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.process.LocalProcess;
import magnetar.kernel.process.Outbox;
import magnetar.kernel.process.Room;

/**
 * The large messages to another node, which leave in parts. Signals of other processes pass between the parts.
 *
 * <p>Invariants:
 * <ol>
 *   <li>The signals of a process, or of a thread outside of one, leave in the order in which it has sent them. While a large message of a process is here, its
 *       further signals are kept behind the last one, and its next large message begins when that has left. A notice of a
 *       death that has a name, and no pid, is kept behind all messages that are here.
 *   <li>The writer adds a part to the outbox when fewer bytes than a part has are left there. So at most two parts are ahead of
 *       a signal of another process.
 *   <li>A message is sent to its end, also if its process dies meanwhile: a node of Erlang knows no sequence of parts that
 *       is given up. Only the end of the connection drops it.
 *   <li>The messages that have begun take turns. They are at most {@value #MOST}, and have at most {@link Link#LARGEST} bytes
 *       together, because {@link Fragments} keeps no more on the other side.
 *   <li>One message may have any size. Senders wait while all that is here, without the largest message, has {@code limit}
 *       bytes or more. The process of a message waits while that has {@code limit} bytes or more. A sender that has found room
 *       adds its whole message, as in the outbox.
 *   <li>Of what was added without a wait while senders waited, or is kept behind messages, there are at most {@link
 *       Outbox#CUT_OFF} times {@code limit} bytes and one signal. The next one closes the outbox, and frees all senders.
 *   <li>The writer does not wait while there is a message. T1 adds a message, then a tick to the outbox. T2, the writer, takes
 *       bytes, then looks here.
 * </ol>
 *
 * <p>Lock order: the outbox is called, and waiters are woken, without its lock.
 *
 * <p>Source: fragments of Erlang's distribution protocol. Rejected: a sender that waits until its message has left, and adds each
 * part itself. Such a sender may be killed between two parts, and the rest would need another thread.
 */
final class Parts implements Room.Place {
    /** Stands for a process that is not known. */
    static final Object UNKNOWN = new Object();

    private static final int MOST = 16;
    private static final int LARGEST_PART = 1 << 16;
    private static final int SMALLEST_PART = 64;
    private static final int LENGTH = 4;
    private static final int HEADER = LENGTH + 2 + 8 + 8 + 1;
    private static final byte VERSION = (byte) 131;
    private static final byte FIRST = 69;
    private static final byte NEXT = 70;
    private static final byte[] TICK = new byte[LENGTH];

    private final String node;
    private final int limit;
    private final Outbox outbox;
    private final int part;
    private final Room senders = new Room(this);

    // Guarded by its lock.
    private final List<Large> here = new ArrayList<>(); // in the order in which they came
    private final ArrayDeque<Large> turns = new ArrayDeque<>(); // that have begun, without the one that the writer has
    private int begun;
    private long begunBytes;
    private long kept; // the bytes of what is kept behind messages
    private long forced; // bytes that were added without a wait
    private boolean overflowed;
    private boolean finishing;
    private boolean closed;

    // Written under its lock, read by any thread: how many messages are here.
    private volatile int count;

    // Of the writer.
    private long lastSequence;
    private byte[] packet = new byte[0];

    /** A message. Its process waits while much of it is left. */
    private static final class Large implements Room.Place {
        private final Object sender;
        private final byte[] bytes;
        private final int start;
        private final int control; // where the control message ends, which is in the first part
        private final int end;
        private final Room own = new Room(this);

        // Guarded by the lock of Parts.
        private int at; // what is before it was sent
        private boolean hasBegun;
        private boolean isForced;
        private List<Kept> behind = new ArrayList<>(0);

        // Of the writer.
        private long sequence;
        private long number; // of the next part; the last one has the number 1

        // Guarded by its own lock.
        private boolean isShort;

        Large(Object sender, byte[] bytes, int start, int control, int end, boolean isShort) {
            this.sender = sender;
            this.bytes = bytes;
            this.start = start;
            this.control = control;
            this.end = end;
            this.at = start;
            this.isShort = isShort;
        }

        int size() {
            return end - start;
        }

        @Override
        public boolean isFull() {
            return !isShort;
        }

        void freeSender() {
            synchronized (this) {
                isShort = true;
            }
            own.wake(Room.ALL);
        }
    }

    /** A packet that is kept behind messages. */
    private static final class Kept {
        private final byte[] packet;
        private final boolean waited;
        private int messages; // how many of them have not left

        Kept(byte[] packet, boolean waited, int messages) {
            this.packet = packet;
            this.waited = waited;
            this.messages = messages;
        }
    }

    /**
     * No messages.
     *
     * @param node the name of the other node, which {@code inspect} shows
     * @param limit the number of bytes from which on senders wait
     */
    Parts(String node, int limit, Outbox outbox) {
        this.node = node;
        this.limit = limit;
        this.outbox = outbox;
        this.part = Math.max(SMALLEST_PART, Math.min(LARGEST_PART, limit / 4));
    }

    /** The most bytes of a message in a part. One with more is large. */
    int part() {
        return part;
    }

    /** What sends on the current thread: its process, or the thread itself. */
    static Object sender() {
        LocalProcess me = LocalProcess.current();
        return me == null ? Thread.currentThread() : me.pid();
    }

    /** True if signals may have to be kept. A process sees its own messages. */
    boolean isBusy() {
        return count > 0;
    }

    // --- senders -----------------------------------------------------------------------------------------------------

    /**
     * Adds a large message, and never waits. It takes over the array.
     *
     * @param sender the pid of its process, or its thread
     * @param start where the control message begins
     * @param control where the control message ends
     * @param end where the message ends
     * @param waited whether the sender has waited for room before
     */
    void add(Object sender, byte[] bytes, int start, int control, int end, boolean waited) {
        Large m = new Large(sender, bytes, start, control, end, end - start < limit);
        boolean closes;
        synchronized (this) {
            if (isEnding()) {
                return;
            }
            closes = isTooMuch(waited);
            if (!closes) {
                here.add(m);
                count = here.size();
                m.isForced = !waited && isFull();
                forced += m.isForced ? m.size() : 0;
                begin();
            }
        }
        if (closes) {
            outbox.close();
            close();
        } else {
            outbox.add(TICK, 0, LENGTH, true);
        }
    }

    /**
     * Keeps a signal that has to leave behind messages which are here. False if no message is here, and the signal may be
     * added to the outbox.
     *
     * @param sender as in {@link #add}, or {@link #UNKNOWN}
     */
    boolean keep(Object sender, byte[] bytes, int length, boolean waited) {
        boolean closes;
        synchronized (this) {
            List<Large> before = sender == UNKNOWN ? here : last(sender);
            if (before.isEmpty()) {
                return finishing && !here.isEmpty(); // the outbox is open for what is here
            }
            closes = !isEnding() && isTooMuch(waited);
            if (!closes && !isEnding()) {
                Kept k = new Kept(Arrays.copyOf(bytes, length), waited, before.size());
                before.forEach(m -> m.behind.add(k));
                kept += length;
                forced += waited ? 0 : length;
            }
        }
        if (closes) {
            outbox.close();
            close();
        }
        return true;
    }

    private boolean isEnding() {
        return closed || finishing;
    }

    /** True if nothing more is added, because too much was added without a wait. */
    private boolean isTooMuch(boolean waited) {
        overflowed |= !waited && forced >= (long) Outbox.CUT_OFF * limit;
        return overflowed;
    }

    /** True if it has ended the stream, because too much was added without a wait. */
    synchronized boolean hasOverflowed() {
        return overflowed;
    }

    private List<Large> last(Object sender) {
        for (int i = here.size() - 1; i >= 0; i--) {
            if (here.get(i).sender.equals(sender)) {
                return List.of(here.get(i));
            }
        }
        return List.of();
    }

    /** Waits until there is room for a signal of the current process, or it is closed. */
    void awaitRoom() throws InterruptedException {
        do {
            if (isBusy()) {
                for (Large m : lastOf(sender())) {
                    m.own.await(WaitReason.NODE_ROOM, node);
                }
                senders.await(WaitReason.NODE_ROOM, node);
            }
            outbox.awaitRoom();
        } while (isBusy() && hasFilled()); // with messages of others, while this waited for the outbox
    }

    private synchronized List<Large> lastOf(Object sender) {
        return last(sender);
    }

    private synchronized boolean hasFilled() {
        return isFull();
    }

    /** Under the lock. */
    @Override
    public boolean isFull() {
        long all = 0;
        long largest = 0;
        for (Large m : here) {
            all += m.end - m.at;
            largest = Math.max(largest, m.end - m.at);
        }
        return all - largest + kept >= limit;
    }

    // --- the writer --------------------------------------------------------------------------------------------------

    /** Called under the lock. The oldest messages begin, as many as may. */
    private void begin() {
        for (Large m : here) {
            if (!m.hasBegun && !isOtherBegun(m)) {
                if (begun == MOST || begun > 0 && begunBytes + m.size() > Link.LARGEST) {
                    return;
                }
                m.hasBegun = true;
                begun++;
                begunBytes += m.size();
                turns.add(m);
            }
        }
    }

    private boolean isOtherBegun(Large m) {
        return here.stream().anyMatch(other -> other.hasBegun && other.sender.equals(m.sender));
    }

    /** Adds parts to the outbox, until as many bytes as a part has wait there. Called after each take. */
    void feed() {
        while (isBusy() && outbox.size() < part) {
            Large m;
            synchronized (this) {
                m = overflowed ? null : turns.poll();
            }
            if (m == null) {
                return;
            }
            sendPart(m);
        }
    }

    private void sendPart(Large m) {
        boolean first = m.at == m.start;
        if (first) {
            m.sequence = ++lastSequence;
            m.number = (m.end - m.control + part - 1) / part;
        }
        int next = (int) Math.min(m.end, (first ? m.control : m.at) + (long) part);
        addPacket(m, first, next);
        m.number--;
        synchronized (this) {
            m.at = next;
            if (next < m.end) {
                turns.add(m);
            }
        }
        if (m.end - next < limit) {
            m.freeSender();
        }
        if (next == m.end) {
            end(m);
        }
        senders.wake(Room.ALL);
    }

    private void addPacket(Large m, boolean first, int next) {
        int content = next - m.at;
        if (packet.length < HEADER + content) {
            packet = new byte[HEADER + content];
        }
        ByteBuffer b = ByteBuffer.wrap(packet).position(LENGTH).put(VERSION).put(first ? FIRST : NEXT).putLong(m.sequence).putLong(m.number);
        if (first) {
            b.put((byte) 0); // no atoms
        }
        b.put(m.bytes, m.at, content);
        b.putInt(0, b.position() - LENGTH);
        outbox.add(packet, 0, b.position(), true);
    }

    /** The message has left. What was kept behind it leaves before its process sends the next signal. */
    private void end(Large m) {
        for (List<Kept> next = nextBehind(m); !next.isEmpty(); next = nextBehind(m)) {
            next.forEach(k -> outbox.add(k.packet, 0, k.packet.length, k.waited));
        }
        boolean isLast;
        synchronized (this) {
            isLast = finishing && here.isEmpty();
        }
        if (isLast) {
            outbox.finish();
        }
    }

    /** What was kept behind the message and no other one. If there is nothing, the message is removed. */
    private synchronized List<Kept> nextBehind(Large m) {
        List<Kept> next = new ArrayList<>();
        for (Kept k : m.behind) {
            k.messages--;
            if (k.messages == 0) {
                next.add(k);
                kept -= k.packet.length;
                forced -= k.waited ? 0 : k.packet.length;
            }
        }
        m.behind = new ArrayList<>(0);
        if (next.isEmpty() && here.remove(m)) {
            count = here.size();
            begun--;
            begunBytes -= m.size();
            forced -= m.isForced ? m.size() : 0;
            begin();
        }
        return next;
    }

    // --- the end -----------------------------------------------------------------------------------------------------

    /** Takes nothing more in. The outbox is finished when all messages have left. */
    void finish() {
        boolean isLast;
        synchronized (this) {
            finishing = true;
            isLast = here.isEmpty();
        }
        if (isLast) {
            outbox.finish();
        }
    }

    /** Drops the messages, and ends all waits. Called when the outbox is closed. */
    void close() {
        List<Large> dropped;
        synchronized (this) {
            closed = true;
            dropped = new ArrayList<>(here);
            here.clear();
            turns.clear();
            kept = 0;
            count = 0;
        }
        dropped.forEach(Large::freeSender);
        senders.wake(Room.ALL);
    }
}
