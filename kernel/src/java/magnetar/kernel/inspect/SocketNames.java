package magnetar.kernel.inspect;

import java.io.IOException;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketAddress;
import java.nio.channels.NetworkChannel;
import java.nio.channels.SocketChannel;
import java.util.regex.Pattern;

/** What a wait at a socket is called: the address of the other side, or of the socket if it has no other side. */
final class SocketNames {
    private static final Pattern ZEROS = Pattern.compile("(^|:)0(:0)+(:|(?=%)|$)"); // in an address of IPv6

    private SocketNames() {}

    /** The name of the socket, host or address that a thread waits on; null for another object. */
    static String of(Object on) {
        try {
            if (on instanceof Socket socket) {
                return text(socket.getRemoteSocketAddress());
            }
            if (on instanceof NetworkChannel channel) {
                return ofChannel(channel);
            }
            return on instanceof String name ? name : text(addressOf(on));
        } catch (IOException closed) {
            return null;
        }
    }

    /** The client of a unix socket has no path, so its server tells the own one. */
    private static String ofChannel(NetworkChannel channel) throws IOException {
        String remote = channel instanceof SocketChannel s ? text(s.getRemoteAddress()) : null;
        return remote == null ? text(channel.getLocalAddress()) : remote;
    }

    private static SocketAddress addressOf(Object on) {
        if (on instanceof ServerSocket socket) {
            return socket.getLocalSocketAddress();
        }
        if (on instanceof DatagramSocket socket) {
            return socket.getLocalSocketAddress();
        }
        return on instanceof SocketAddress address ? address : null;
    }

    private static String text(SocketAddress address) {
        if (address instanceof InetSocketAddress inet) {
            InetAddress ip = inet.getAddress();
            String host = ip == null ? inet.getHostString() : ip.getHostAddress();
            String shown = host.contains(":") ? "[".concat(ZEROS.matcher(host).replaceFirst("::")).concat("]") : host;
            return shown.concat(":").concat(Integer.toString(inet.getPort()));
        }
        String path = address == null ? "" : address.toString();
        return path.isEmpty() ? null : path;
    }
}
