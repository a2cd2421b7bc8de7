package magnetar.peer;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.apache.pekko.actor.AbstractActor;
import org.apache.pekko.actor.ActorRef;
import org.apache.pekko.actor.Props;
import org.apache.pekko.io.Inet;
import org.apache.pekko.io.Tcp;
import org.apache.pekko.io.TcpMessage;
import org.apache.pekko.io.TcpSO;

/** Echoes by Pekko's own IO: an actor for each connection, to which bytes come as messages. */
final class PekkoEcho {
    private PekkoEcho() {}

    private static final List<Inet.SocketOption> OPTIONS = List.of(TcpSO.tcpNoDelay(true));

    static double start(Consumer<Props> starter) {
        CompletableFuture<Integer> port = new CompletableFuture<>();
        starter.accept(Props.create(Listener.class, () -> new Listener(port)));
        return port.join();
    }

    private static final class Listener extends AbstractActor {
        private final CompletableFuture<Integer> port;

        Listener(CompletableFuture<Integer> port) {
            this.port = port;
        }

        @Override
        public void preStart() {
            InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
            Tcp.get(getContext().getSystem()).manager().tell(TcpMessage.bind(getSelf(), address, 1024, OPTIONS, false), getSelf());
        }

        @Override
        public Receive createReceive() {
            return receiveBuilder()
                    .match(Tcp.Bound.class, bound -> port.complete(bound.localAddress().getPort()))
                    .match(Tcp.Connected.class, connected -> register())
                    .build();
        }

        private void register() {
            ActorRef connection = getContext().actorOf(Props.create(Connection.class, Connection::new));
            getSender().tell(TcpMessage.register(connection), getSelf());
        }
    }

    private static final class Connection extends AbstractActor {
        @Override
        public Receive createReceive() {
            return receiveBuilder()
                    .match(Tcp.Received.class, received -> getSender().tell(TcpMessage.write(received.data()), getSelf()))
                    .match(Tcp.ConnectionClosed.class, closed -> getContext().stop(getSelf()))
                    .build();
        }
    }
}
