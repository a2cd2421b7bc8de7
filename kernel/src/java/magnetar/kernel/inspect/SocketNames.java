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
            return switch (on) {
                case Socket socket -> text(socket.getRemoteSocketAddress());
                case SocketChannel channel -> ofChannel(channel);
                case ServerSocket socket -> text(socket.getLocalSocketAddress());
                case NetworkChannel channel -> text(channel.getLocalAddress());
                case DatagramSocket socket -> text(socket.getLocalSocketAddress());
                case SocketAddress address -> text(address);
                case String name -> name;
                case null, default -> null;
            };
        } catch (IOException closed) {
            return null;
        }
    }

    /** The client of a unix socket has no path, so its server tells the own one. */
    private static String ofChannel(SocketChannel channel) throws IOException {
        String remote = text(channel.getRemoteAddress());
        return remote == null ? text(channel.getLocalAddress()) : remote;
    }

    private static String text(SocketAddress address) {
        if (address instanceof InetSocketAddress inet) {
            InetAddress ip = inet.getAddress();
            String host = ip == null ? inet.getHostString() : ip.getHostAddress();
            return (host.contains(":") ? "[" + ZEROS.matcher(host).replaceFirst("::") + "]" : host) + ":" + inet.getPort();
        }
        String path = address == null ? "" : address.toString();
        return path.isEmpty() ? null : path;
    }
}
