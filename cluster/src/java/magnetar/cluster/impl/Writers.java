package magnetar.cluster.impl;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jgroups.PhysicalAddress;

/**
 * Writes to each address from a thread of its own. The bundler of JGroups has one thread for all members, which also
 * dials. Without this, an address that accepts a connection and does not answer holds up what is sent to the others.
 * So does a member that no longer reads, when the buffers of TCP are full.
 *
 * <p>A queue that is full drops what comes. JGroups sends it again.
 */
final class Writers {
    private static final long MAX_BYTES = 16 << 20;
    private static final long IDLE_MILLIS = 10_000;

    /** Writes a buffer to an address. May block. */
    interface Output {
        void write(PhysicalAddress to, byte[] buffer) throws Exception;
    }

    private final Output output;
    private final Map<PhysicalAddress, Writer> writers = new ConcurrentHashMap<>();
    private volatile boolean stopped;

    Writers(Output output) {
        this.output = output;
    }

    /** Adds a copy of the bytes to the queue of the address. Never blocks for long. */
    void write(PhysicalAddress to, byte[] data, int offset, int length) {
        byte[] copy = Arrays.copyOfRange(data, offset, offset + length);
        while (!stopped && !writers.computeIfAbsent(to, Writer::new).offer(copy)) {
            Thread.onSpinWait(); // that writer has just ended, and is no longer in the map
        }
    }

    /** Ends all threads; what is queued is dropped. */
    void stop() {
        stopped = true;
        writers.values().forEach(Writer::stop);
        writers.clear();
    }

    private final class Writer {
        private final PhysicalAddress to;
        private final ArrayDeque<byte[]> queue = new ArrayDeque<>();
        private final Thread thread;
        private long bytes;
        private boolean ended;

        Writer(PhysicalAddress to) {
            this.to = to;
            thread = Thread.ofVirtual().name("magnetar-cluster-writer " + to).start(this::run);
        }

        synchronized boolean offer(byte[] buffer) {
            if (ended) {
                return false;
            }
            if (bytes + buffer.length <= MAX_BYTES) {
                queue.add(buffer);
                bytes += buffer.length;
                notifyAll();
            }
            return true;
        }

        synchronized void stop() {
            ended = true;
            thread.interrupt();
        }

        private void run() {
            try {
                for (byte[] buffer = next(); buffer != null; buffer = next()) {
                    write(buffer);
                    written(buffer);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt(); // stopped
            }
        }

        private void write(byte[] buffer) {
            try {
                output.write(to, buffer);
            } catch (Exception e) {
                return; // the address does not answer: JGroups sends it again, or suspects the member
            }
        }

        private synchronized void written(byte[] buffer) {
            bytes -= buffer.length;
        }

        /** The next buffer; null when the thread may end. */
        private synchronized byte[] next() throws InterruptedException {
            if (queue.isEmpty() && !ended) {
                wait(IDLE_MILLIS);
            }
            if (queue.isEmpty() && !ended) {
                ended = true;
                writers.remove(to, this);
            }
            return ended ? null : queue.poll();
        }
    }
}
