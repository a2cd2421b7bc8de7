package magnetar.cluster.wire;

import java.util.function.Consumer;
import magnetar.etf.Codec;
import magnetar.kernel.process.Outbox;
import magnetar.kernel.process.Signal;

/**
 * The signals to one other node and from it, as two streams of bytes: from what the kernel sends to the parts that go
 * into frames, and from the parts that have arrived to what the kernel receives.
 *
 * <p>Any thread may send. One thread at a time takes, and one reads.
 */
public final class Stream {
    /** How much of a stream may be on its way until its reader has processed it. */
    private static final long WINDOW = 1 << 20;

    /** The reader tells its position when it has grown by so much. */
    private static final long SHARE = WINDOW / 4;

    private final int largest;
    private final Outbox outbox;
    private final SignalWriter writer;
    private final SignalReader reader;
    private volatile boolean dropped; // written before the outbox is closed

    // Of the thread that reads: the cost of what was processed, and of what the other side was told.
    private long processed;
    private long told;

    /**
     * A stream at its begin.
     *
     * @param node the name of the other node
     * @param limit the number of bytes that have not left from which on senders wait
     * @param largest the most bytes of a signal
     * @param leftOut is told why a message of the other node was left out
     */
    public Stream(Codec codec, String node, int limit, int largest, Consumer<Throwable> leftOut) {
        this.largest = largest;
        this.outbox = new Outbox(node, limit, WINDOW);
        this.writer = new SignalWriter(codec, outbox, largest);
        this.reader = new SignalReader(codec, largest, leftOut);
    }

    /** The most bytes of a signal. */
    public int largest() {
        return largest;
    }

    void send(Signal signal) {
        writer.add(signal);
    }

    void awaitRoom() throws InterruptedException {
        outbox.awaitRoom();
    }

    /** Takes what is to leave, see {@link Outbox#take}. */
    public int take(byte[] frame, int from) throws InterruptedException {
        return outbox.take(frame, from);
    }

    /** The other side has processed all up to this position, see {@link #dueToTell}. */
    public void wasProcessed(long position) {
        outbox.processed(position);
    }

    /** How many bytes have not left. */
    public int size() {
        return outbox.size();
    }

    /**
     * Reads what has arrived from the position on, and hands on each signal that is complete.
     *
     * @throws BadStream if no stream of this library looks like that
     */
    public void read(byte[] frame, int from, Consumer<Signal> signals) {
        reader.read(frame, from, signals);
        processed += Outbox.cost(frame.length - from);
    }

    /** Returns the position up to which all was read, if the other side has to be told now; else 0. */
    public long dueToTell() {
        if (processed - told < SHARE) {
            return 0;
        }
        told = processed;
        return told;
    }

    /** Sends nothing more. What has not left can still be taken. */
    public void finish() {
        outbox.finish();
    }

    /** True if what had not left was dropped. */
    public boolean isDropped() {
        return dropped || hasOverflowed();
    }

    /** True if the stream has closed itself, because the other node does not read, see {@link Outbox}. */
    public boolean hasOverflowed() {
        return outbox.hasOverflowed();
    }

    /** Drops what has not left. */
    public void close() {
        dropped = true;
        outbox.close();
    }
}
