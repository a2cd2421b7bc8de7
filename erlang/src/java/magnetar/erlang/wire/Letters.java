package magnetar.erlang.wire;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import javax.net.ssl.SSLSocket;

/**
 * Messages with their length before a connection is up: messages of a handshake, with two bytes for the length, or four
 * with TLS; and of EPMD, with two, whose answers have no length.
 *
 * <p>Invariants: all of it ends by the deadline, however slowly the bytes come. No more bytes are read than were asked for,
 * so what follows is for the next reader of the socket. No array is longer than its limit.
 */
final class Letters {
    private final Socket socket;
    private final int prefix; // how many bytes a length has
    private final InputStream in;
    private final long deadline;

    Letters(Socket socket, long deadline) throws IOException {
        this.socket = socket;
        this.prefix = socket instanceof SSLSocket ? Integer.BYTES : Short.BYTES;
        this.in = socket.getInputStream();
        this.deadline = deadline;
    }

    /** The next message, which has at least one byte. */
    ByteBuffer next(int most) throws IOException {
        ByteBuffer before = bytes(prefix);
        int length = prefix == Short.BYTES ? before.getShort() & 0xffff : before.getInt();
        if (length < 1 || length > most) {
            throw new Refused("It has announced a message of " + Integer.toUnsignedString(length) + " bytes in the handshake, where at most " + most + " are allowed.");
        }
        return bytes(length);
    }

    /** The next bytes. */
    ByteBuffer bytes(int n) throws IOException {
        byte[] bytes = new byte[n];
        for (int at = 0; at < n;) {
            long left = (deadline - System.nanoTime()) / 1_000_000;
            if (left <= 0) {
                throw new SocketTimeoutException("It did not answer in time.");
            }
            socket.setSoTimeout((int) left);
            int read;
            try {
                read = in.read(bytes, at, n - at);
            } catch (SocketTimeoutException e) {
                continue; // which finds that no time is left
            }
            if (read < 0) {
                throw new EOFException("It has closed the connection.");
            }
            at += read;
        }
        return ByteBuffer.wrap(bytes);
    }

    /** Sends a message, all at once. What is sent before a connection is up fits into the buffers of the socket. */
    void send(ByteBuffer message) throws IOException {
        message.flip();
        int length = message.remaining();
        ByteBuffer all = ByteBuffer.allocate(prefix + length);
        if (prefix == Short.BYTES) {
            all.putShort((short) length);
        } else {
            all.putInt(length);
        }
        socket.getOutputStream().write(all.put(message).array());
    }

    /** No read has a limit any more. */
    void end() throws IOException {
        socket.setSoTimeout(0);
    }
}
