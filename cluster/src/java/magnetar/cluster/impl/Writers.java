package magnetar.cluster.impl;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.jgroups.PhysicalAddress;

/**
 * Writes to each address from a thread of its own. The bundler of JGroups has one thread for all members, which also
 * dials. Without this, an address that accepts a connection and does not answer holds up what is sent to the others.
 * So does a member that no longer reads, when the buffers of TCP are full.
 *
 * <p>A queue that is full drops what comes. JGroups sends it again.
 *
 * <p>Lock. Each writer has one, under which nothing is written and no other lock is taken. It is no monitor: the JDK wakes
 * a virtual thread that waits in a monitor by way of a platform thread, which every frame would pay for.
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
        private final Thread thread;
        private final ReentrantLock lock = new ReentrantLock();
        private final Condition added = lock.newCondition();

        // Guarded by the lock.
        private final ArrayDeque<byte[]> queue = new ArrayDeque<>();
        private long bytes;
        private boolean ended;

        Writer(PhysicalAddress to) {
            this.to = to;
            thread = Thread.ofVirtual().name("magnetar-cluster-writer " + to).start(this::run);
        }

        boolean offer(byte[] buffer) {
            lock.lock();
            try {
                if (ended) {
                    return false;
                }
                if (bytes + buffer.length <= MAX_BYTES) {
                    queue.add(buffer);
                    bytes += buffer.length;
                    added.signal();
                }
                return true;
            } finally {
                lock.unlock();
            }
        }

        void stop() {
            lock.lock();
            try {
                ended = true;
            } finally {
                lock.unlock();
            }
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

        private void written(byte[] buffer) {
            lock.lock();
            try {
                bytes -= buffer.length;
            } finally {
                lock.unlock();
            }
        }

        /** The next buffer; null when the thread may end. */
        private byte[] next() throws InterruptedException {
            lock.lockInterruptibly();
            try {
                long left = TimeUnit.MILLISECONDS.toNanos(IDLE_MILLIS);
                while (queue.isEmpty() && !ended && left > 0) {
                    left = added.awaitNanos(left);
                }
                if (queue.isEmpty() && !ended) {
                    ended = true;
                    writers.remove(to, this);
                }
                return ended ? null : queue.poll();
            } finally {
                lock.unlock();
            }
        }
    }
}
