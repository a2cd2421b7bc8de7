package magnetar.erlang.wire;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;
import javax.net.ssl.SSLException;
import magnetar.etf.Codec;
import magnetar.kernel.park.Latch;
import magnetar.kernel.park.WaitReason;
import magnetar.kernel.process.Peers;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Waits;

/**
 * This JVM as a node of Erlang: listens, dials, and has a {@link Link} with each node that has proved the cookie.
 *
 * <p>Invariants:
 * <ol>
 *   <li>At most one node of a JVM is open. It gives the JVM its name, and takes it away when all of it has ended.
 *   <li>A name has at most one link in {@code links}, and one dial in {@code dials}. A new link, whose side has proved
 *       the cookie, takes the place of the old one, which is closed and has ended before the new one begins. What a side
 *       says before its proof changes nothing.
 *   <li>A dial ends with an answer: true when there is a link with the node of this name, by whichever side, and else
 *       false, at the latest after twice the time of a handshake.
 *   <li>Two nodes that dial each other get one link: the dial of the node with the greater name goes on. The other node
 *       answers {@code ok_simultaneous} to it, and gives its own up when that one is up. If its own is answered
 *       {@code alive} after that, it says that it does not want to go on.
 *   <li>A dial that has failed after more than a second is not begun again by signals for as long as it took. So a process
 *       that sends to a host that does not answer waits for half of the time at most. {@link #connect} begins one at any time.
 *   <li>T1 adds a socket or a link and checks {@code closed} under the lock. T2, in {@link #close}, writes {@code closed} under
 *       the lock, then closes what there is. So no thread and no socket outlives {@link #close}.
 * </ol>
 */
public final class Node {
    private static final AtomicReference<Node> OPEN = new AtomicReference<>();

    private static final int MOST_GREETINGS = 100; // at once, before a further side that dials is closed
    private static final int PREDECESSOR_MS = 10_000;
    private static final int DRAIN_MS = 2_000;
    private static final int TICKS = 4;
    private static final long SLOW_NANOS = 1_000_000_000L;

    private final Settings own;
    private final Links transport;
    private final Codec codec;
    private final Log log = new Log();
    private final CountDownLatch gone = new CountDownLatch(1);

    // Written by open.
    private BiFunction<String, Long, InetAddress> resolver;
    private ServerSocket listener;
    private Epmd registration;
    private Thread ticker;

    // Guarded by its lock.
    private final Map<String, Link> links = new HashMap<>();
    private final Map<String, Dial> dials = new HashMap<>();
    private final Map<String, Long> unreachable = new HashMap<>(); // until when signals dial no node of this name
    private final Set<Socket> greetings = new HashSet<>(); // sockets whose handshake has not ended
    private final Map<Socket, String> proved = new HashMap<>(); // the ones whose node has proved the cookie, until there is a link
    private boolean closed;

    /** A dial. What waits for it is told after it was forgotten. */
    private record Dial(CompletableFuture<Boolean> answer, CompletableFuture<Boolean> told, long begin) {}

    /** A node that does not listen yet. The codec has the identities of the transport. */
    public Node(Settings own, Links transport, Codec codec) {
        this.own = own;
        this.transport = transport;
        this.codec = codec;
    }

    // --- the begin ---------------------------------------------------------------------------------------------------

    /**
     * Names this JVM, listens, and registers with EPMD. Waits until a node that was open before has ended.
     *
     * @param hosts from the name of a host, and a limit in ns, to its address; null if none is found. Called by virtual threads,
     *     so its look-up has to be on another thread: the resolver of the JDK holds the carrier
     * @throws IOException if that is not possible. Then {@link #close} has to be called nonetheless
     */
    public void open(BiFunction<String, Long, InetAddress> hosts) throws IOException, InterruptedException {
        resolver = hosts; // before a signal finds this node
        awaitPredecessor();
        if (!Peers.setName(own.name(), this)) {
            throw new IOException("This JVM is the node " + Peers.name() + " already.");
        }
        listener = new ServerSocket();
        listener.setReuseAddress(true);
        try {
            listener.bind(new InetSocketAddress(own.bind(), own.port()));
        } catch (IOException e) {
            throw new IOException("The port " + own.port() + " of " + own.bind().getHostAddress() + " cannot be listened at: " + e.getMessage() + ".", e);
        }
        if (own.epmd() != null) {
            registration = Epmd.register(own, listener.getLocalPort(), own.handshake());
        }
        Peers.addDialer(transport);
        Thread.ofVirtual().name("magnetar-erlang-listener").start(this::listen);
        ticker = Thread.ofVirtual().name("magnetar-erlang-ticker").start(this::tick);
    }

    private void awaitPredecessor() throws IOException, InterruptedException {
        while (!OPEN.compareAndSet(null, this)) {
            Node other = OPEN.get();
            if (other != null && !other.gone.await(PREDECESSOR_MS, TimeUnit.MILLISECONDS)) {
                throw new IOException("This JVM is the node " + other.own.name() + " already.");
            }
        }
    }

    /** The port where it listens. */
    public int port() {
        return listener.getLocalPort();
    }

    private void tick() {
        try {
            while (true) {
                Thread.sleep(Math.max(1, own.tick() / TICKS));
                snapshot().forEach(Link::tick);
            }
        } catch (InterruptedException e) {
            // The node is closed.
        }
    }

    private synchronized List<Link> snapshot() {
        return new ArrayList<>(links.values());
    }

    // --- being dialled -----------------------------------------------------------------------------------------------

    private void listen() {
        while (true) {
            try {
                Socket s = listener.accept();
                if (enter(s, MOST_GREETINGS)) {
                    Thread.ofVirtual().name("magnetar-erlang-greeting").start(() -> accept(s));
                } else {
                    s.close();
                }
            } catch (IOException e) {
                if (listener.isClosed()) {
                    return;
                }
                Thread.yield(); // there may be no descriptor left, for now
            }
        }
    }

    /** False if this is closed, or so many handshakes go on already. */
    private synchronized boolean enter(Socket s, int most) {
        return !closed && greetings.size() < most && greetings.add(s);
    }

    private synchronized void note(Socket s, String name) {
        proved.put(s, name);
    }

    private synchronized void leave(Socket s) {
        greetings.remove(s);
        proved.remove(s);
    }

    private void accept(Socket s) {
        boolean kept = false;
        try {
            long deadline = deadline();
            Socket talk = secured(s, null, deadline);
            Handshake.Other other = new Handshake(talk, own, deadline).accept(this::judge, name -> note(s, name));
            kept = other != null && admit(other, s, talk);
        } catch (IOException e) {
            log.warn("A node at " + s.getRemoteSocketAddress() + " is not let in. " + sentence(e));
        } finally {
            leave(s);
            if (!kept) {
                closeQuietly(s);
            }
        }
    }

    private synchronized Handshake.Status judge(String name) {
        if (name.equals(own.name())) {
            return Handshake.Status.NOT_ALLOWED;
        }
        if (links.containsKey(name)) {
            return Handshake.Status.ALIVE;
        }
        if (!dials.containsKey(name)) {
            return Handshake.Status.OK;
        }
        return name.compareTo(own.name()) > 0 ? Handshake.Status.OK_SIMULTANEOUS : Handshake.Status.NOK;
    }

    // --- dialling ----------------------------------------------------------------------------------------------------

    /**
     * Connects with the node of this name. The answer is true if there is a connection.
     *
     * @param port the port there; 0 asks EPMD of its host
     */
    public CompletableFuture<Boolean> connect(String name, int port) {
        Dial dial;
        synchronized (this) {
            if (closed || name.equals(own.name())) {
                return CompletableFuture.completedFuture(!closed);
            }
            Link link = links.get(name);
            if (link != null && !link.isClosed()) { // the dial of a node that was just lost has to wait for no end of its link
                return link.up();
            }
            Dial other = dials.get(name);
            if (other != null && !other.answer.isDone()) { // one that is done will be forgotten
                return other.told;
            }
            dial = new Dial(new CompletableFuture<>(), new CompletableFuture<>(), System.nanoTime());
            dials.put(name, dial);
        }
        dial.answer.completeOnTimeout(false, 2L * own.handshake(), TimeUnit.MILLISECONDS).whenComplete((up, _) -> {
            forget(name, dial, up);
            dial.told.complete(up);
        });
        Thread.ofVirtual().name("magnetar-erlang-dial").start(() -> dial(name, port, dial));
        return dial.told;
    }

    private synchronized void forget(String name, Dial dial, boolean up) {
        dials.remove(name, dial);
        long now = System.nanoTime();
        unreachable.values().removeIf(until -> until - now <= 0);
        if (!up && now - dial.begin > SLOW_NANOS) {
            unreachable.put(name, 2 * now - dial.begin);
        }
    }

    /** For a signal: connects with the node of this name, and waits as the current fiber until that is done or cannot be. */
    static void reach(String name) throws InterruptedException {
        Node open = OPEN.get();
        if (open != null && open.maySignalsDial(name)) {
            Latch done = new Latch();
            open.connect(name, 0).whenComplete((_, _) -> done.release());
            Waits.await(done, WaitReason.NODE_CONNECTION, name, Durations.INFINITE);
        }
    }

    private synchronized boolean maySignalsDial(String name) {
        if (own.epmd() == null || !Settings.isName(name)) {
            return false; // no port is known
        }
        Long until = unreachable.get(name);
        return until == null || until - System.nanoTime() <= 0;
    }

    private void dial(String name, int port, Dial dial) {
        Socket s = new Socket();
        boolean kept = false;
        try {
            long deadline = deadline();
            InetSocketAddress at = place(name, port, deadline);
            if (at != null && enter(s, Integer.MAX_VALUE)) { // sides that dial this node keep no dial away
                s.connect(at, own.handshake());
                Socket talk = secured(s, Settings.host(name), deadline);
                Handshake.Other other = new Handshake(talk, own, deadline).dial(name, () -> lacks(name));
                kept = other != null && admit(other, s, talk);
                if (other == null) {
                    return; // the other node dials as well, and goes on with that or has done so: its link answers the dial
                }
            }
        } catch (Refused | SSLException e) {
            log.warn("The node " + name + " is not connected. " + sentence(e));
        } catch (IOException e) {
            // It is not there: the answer says so.
        } finally {
            leave(s);
            if (!kept) {
                closeQuietly(s);
            }
        }
        if (!kept) {
            dial.answer.complete(false);
        }
    }

    private synchronized boolean lacks(String name) {
        Link link = links.get(name);
        return (link == null || link.isClosed()) && !proved.containsValue(name);
    }

    /** The socket for the bytes of the handshake and the link, which has TLS if it is configured. The host is the one that is dialled, or null. */
    private Socket secured(Socket s, String host, long deadline) throws IOException {
        s.setTcpNoDelay(true);
        return own.tls() == null ? s : Tls.secure(s, own.tls(), host, deadline);
    }

    private InetSocketAddress place(String name, int port, long deadline) throws IOException {
        InetAddress host = resolver.apply(Settings.host(name), deadline - System.nanoTime());
        if (host == null) {
            return null;
        }
        if (own.tls() == null && !own.insecure() && !host.isLoopbackAddress()) {
            throw new Refused("It is on another machine, and this node has neither :tls nor :insecure.");
        }
        int found = port;
        if (port == 0) {
            found = own.epmd() == null ? -1 : Epmd.port(new InetSocketAddress(host, own.epmd().getPort()), Settings.alive(name), deadline);
        }
        return found < 1 ? null : new InetSocketAddress(host, found);
    }

    // --- links -------------------------------------------------------------------------------------------------------

    /** Begins the link with a node that has proved the cookie; false if this is closed. */
    private synchronized boolean admit(Handshake.Other other, Socket s, Socket talk) {
        if (closed) {
            return false;
        }
        Link before = links.get(other.name());
        if (before != null) {
            before.close();
        }
        Link link = new Link(transport, other, own, codec, s, talk, before, log);
        links.put(other.name(), link);
        try {
            link.start(() -> ended(link));
        } catch (Throwable t) { // no thread could be started
            links.remove(other.name());
            link.neverBegan();
            throw t;
        }
        Dial dial = dials.get(other.name());
        if (dial != null) {
            link.up().thenAccept(dial.answer::complete);
        }
        return true;
    }

    private synchronized void ended(Link link) {
        links.remove(link.name(), link);
    }

    /** The names of the nodes that it has a connection with. */
    public synchronized List<String> names() {
        return links.values().stream().filter(Link::isUp).map(Link::name).sorted().toList();
    }

    /** Ends the connection with the node, and waits until its links and monitors have fired. False if they are not connected. */
    public boolean disconnect(String name) {
        Link link;
        synchronized (this) {
            link = links.get(name);
        }
        if (link != null) {
            link.close();
            link.awaitEnd();
        }
        return link != null;
    }

    /** Ends the connection with the node, if there is one, without a wait. The log tells why. */
    public void drop(String name, String why) {
        Link link;
        synchronized (this) {
            link = links.get(name);
        }
        if (link != null) {
            log.warn("The connection with the node " + name + " is closed, because " + why + ".");
            link.close();
        }
    }

    // --- the end -----------------------------------------------------------------------------------------------------

    /** Ends all of it. What waits to be sent is sent, for some seconds at most. Returns when links and monitors have fired. */
    public void close() {
        List<Socket> strangers;
        List<Dial> waiting;
        synchronized (this) {
            if (closed) {
                return;
            }
            closed = true;
            strangers = new ArrayList<>(greetings);
            waiting = new ArrayList<>(dials.values());
        }
        Peers.removeDialer(transport);
        try {
            closeQuietly(listener);
            closeQuietly(registration);
            if (ticker != null) {
                ticker.interrupt();
            }
            strangers.forEach(Node::closeQuietly);
            waiting.forEach(d -> d.answer.complete(false));
            endLinks();
        } finally {
            Peers.setName(null, this);
            OPEN.compareAndSet(this, null);
            gone.countDown();
        }
    }

    private void endLinks() {
        List<Link> all = snapshot();
        all.forEach(Link::finish);
        long end = System.nanoTime() + DRAIN_MS * 1_000_000L;
        for (Link link : all) {
            if (!link.awaitEnd(Math.max(0, (end - System.nanoTime()) / 1_000_000))) {
                link.close();
                link.awaitEnd();
            }
        }
    }

    private long deadline() {
        return System.nanoTime() + own.handshake() * 1_000_000L;
    }

    private static String sentence(IOException thrown) {
        String text = (thrown instanceof SSLException e ? Tls.failed(e) : thrown).getMessage();
        return text == null ? "It has closed the connection." : text.endsWith(".") ? text : text + ".";
    }

    static void closeQuietly(java.io.Closeable x) {
        if (x != null) {
            try {
                x.close();
            } catch (IOException e) {
                // It is closed.
            }
        }
    }
}
