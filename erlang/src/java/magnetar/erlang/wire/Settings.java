package magnetar.erlang.wire;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import magnetar.kernel.process.Peers;

/**
 * What a node of this JVM is.
 *
 * @param name its name, of the form name@host
 * @param visible whether other nodes list it, and tell each other of it
 * @param bind the address where it listens
 * @param port the port there, 0 for any
 * @param tls the context of TLS, which all connections with nodes have; null for none
 * @param insecure may it dial other machines without TLS?
 * @param epmd where EPMD listens, which is asked for the ports of other nodes as well; null for none
 * @param tick how many ms a connection may be silent
 * @param buffer the number of bytes that have not left from which on senders wait
 * @param handshake how many ms a handshake may take
 */
public record Settings(String name, Cookie cookie, boolean visible, InetAddress bind, int port, SSLContext tls, boolean insecure,
        InetSocketAddress epmd, int tick, int buffer, int handshake) {

    private static final Pattern NAME = Pattern.compile("[^\\s@\\p{Cntrl}]{1,100}@[^\\s@\\p{Cntrl}]{1,150}");

    /** Is this the name of a node? */
    public static boolean isName(String text) {
        return NAME.matcher(text).matches();
    }

    /** The number that tells the node from earlier ones of its name. */
    long creation() {
        return Peers.incarnation();
    }

    long flags() {
        return visible ? Flags.OWN | Flags.PUBLISHED : Flags.OWN;
    }

    /** The part of a name before the @. */
    static String alive(String name) {
        return name.substring(0, name.indexOf('@'));
    }

    /** The part of a name behind the @. */
    static String host(String name) {
        return name.substring(name.indexOf('@') + 1);
    }
}
