package magnetar.cluster.impl;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.logging.Level;
import java.util.logging.Logger;
import magnetar.kernel.network.Member;
import magnetar.kernel.network.Network;
import magnetar.kernel.network.View;
import org.jgroups.Address;
import org.jgroups.BytesMessage;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.util.UUID;

/**
 * A network of nodes by JGroups.
 *
 * <p>Threads. JGroups' threads deliver frames, and answer at once what needs no view. One thread of ours, the loop, handles
 * views of JGroups and names of members in turn, and looks which members answer or are cut off. It alone uses the
 * {@link Membership} and tells views.
 *
 * <p>Lock. {@link #telling} is held while an event is told, so events come one at a time. No other lock is held when it is
 * taken, and nothing of JGroups is called under it. JGroups' threads may send acknowledgements and other answers, because
 * sending never blocks: no protocol of {@link Stack} does, and {@link Writers} have queues.
 *
 * <p>Names. JGroups does not promise that the name of a member is known when the member is in a view. So each member
 * asks new ones for their names, again after {@link #ASK_MILLIS}. No view that is told has a member without a name.
 */
public final class JGroupsNetwork implements Network {
    private static final Logger logger = Logger.getLogger("magnetar.cluster");

    private static final long ASK_MILLIS = 200;
    private static final long MAX_ASK_MILLIS = 2_000; // then a member goes on without the name of another one
    private static final long SOON_MILLIS = 20; // until the loop looks again while it waits for something
    private static final int MAX_NAME = 255;
    private static final long FLUSH_PAUSE_MILLIS = 2;
    private static final long POSITIONS_PER_NANO = 16; // more than any window grows

    private final Settings settings;
    private final long origin = System.nanoTime();
    private final LinkedBlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();
    private final Map<Long, Link> links = new ConcurrentHashMap<>(); // to the members of the view
    private final Answers<Address> answers;
    private final Set<Address> barred = ConcurrentHashMap.newKeySet(); // cut off, and not yet back in a view
    private final CompletableFuture<Member> joined = new CompletableFuture<>();

    private final ReentrantLock telling = new ReentrantLock();
    private final Map<Address, Inbox> inboxes = Membership.remembered(); // guarded by telling
    private final Map<Address, Member> names = Membership.remembered(); // guarded by telling
    private volatile boolean over; // set with the lock telling: no event may follow

    private Events events;
    private ProvenSockets sockets;
    private Stack stack;
    private Thread loop;
    private volatile View view;
    private volatile long selfId; // for senders
    private boolean began; // guarded by this

    // Of the loop.
    private Address self; // a channel forgets its own when it is closed
    private Membership membership;
    private final Map<Address, Long> cuts = new ConcurrentHashMap<>(); // until when, in nanoseconds
    private List<Address> elders;
    private long age = FrameHeader.UNKNOWN;
    private long nextAsk;
    private long nextPing;
    private long patience;

    private record Link(Address address, Window window) {}

    /** A network that has not been joined. Throws if the settings do not fit together. */
    public JGroupsNetwork(Settings settings) {
        settings.check();
        this.settings = settings;
        answers = new Answers<>((int) (settings.detectMillis / settings.heartbeatMillis));
    }

    // --- joining and leaving

    @Override
    public Member join(Events events) throws IOException, InterruptedException {
        synchronized (this) {
            if (began) {
                throw new IllegalStateException("The network of " + settings.name + " was joined before: make another one.");
            }
            began = true;
        }
        this.events = events;
        boolean good = false;
        try {
            open();
            Member self = connected();
            good = true;
            return self;
        } finally {
            if (!good) {
                end();
            }
        }
    }

    private void open() throws IOException {
        if (settings.name.getBytes(StandardCharsets.UTF_8).length > MAX_NAME) {
            throw new IOException("The name of a node has at most " + MAX_NAME + " bytes, and this one has more: " + settings.name);
        }
        try {
            sockets = new ProvenSockets(settings);
        } catch (IOException e) {
            throw new IOException("Cannot listen at " + ProvenSockets.text(settings.address, settings.port) + " (" + e.getMessage()
                    + "): take an address of this machine and a port that is free, or the port 0 for any.", e);
        }
        try {
            stack = new Stack(settings, sockets);
        } catch (Exception e) {
            throw failed(e);
        }
        stack.channel.setReceiver(new Receiver() {
            @Override
            public void viewAccepted(org.jgroups.View next) {
                tasks.add(() -> accept(next));
            }

            @Override
            public void receive(Message message) {
                JGroupsNetwork.this.receive(message);
            }
        });
    }

    private Member connected() throws IOException, InterruptedException {
        loop = Thread.ofVirtual().name("magnetar-cluster-views").start(this::loop);
        Thread.ofVirtual().name("magnetar-cluster-join").start(() -> {
            try {
                stack.channel.connect(settings.cluster);
            } catch (Exception | Error e) {
                joined.completeExceptionally(e);
            }
        });
        try {
            return joined.get();
        } catch (ExecutionException e) {
            throw failed(e.getCause());
        }
    }

    private IOException failed(Throwable cause) {
        return new IOException("The node " + settings.name + " cannot join the cluster " + settings.cluster + " from "
                + address() + ": " + cause.getMessage() + ". Check the addresses of the other nodes.", cause);
    }

    @Override
    public void leave() throws InterruptedException {
        if (stack == null) {
            return;
        }
        try {
            links.values().forEach(link -> link.window.flush());
            long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(settings.leaveMillis);
            while (isSending() && System.nanoTime() - deadline < 0) {
                Thread.sleep(FLUSH_PAUSE_MILLIS);
            }
        } finally {
            end();
        }
    }

    private boolean isSending() {
        return !links.values().stream().allMatch(link -> link.window.isFlushed());
    }

    /** Ends everything. The others are told by JGroups, if there is a channel. */
    private void end() {
        telling.lock();
        over = true;
        telling.unlock();
        joined.cancel(false);
        links.values().forEach(link -> link.window.close());
        if (loop != null) {
            loop.interrupt();
        }
        if (stack != null) {
            stack.channel.close();
        }
        if (sockets != null) {
            sockets.close();
        }
    }

    @Override
    public View view() {
        return view;
    }

    @Override
    public String address() {
        return sockets == null ? ProvenSockets.text(settings.address, settings.port) : sockets.advertised;
    }

    // --- frames

    @Override
    public void send(Member to, byte[] frame) throws InterruptedException {
        if (frame.length > MAX_FRAME) {
            throw new IllegalArgumentException("A frame has at most " + MAX_FRAME + " bytes, and this one has " + frame.length + ".");
        }
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        Link link = links.get(to.id());
        if (link != null && to.id() == selfId) {
            sendToSelf(to, frame);
        } else if (link != null) {
            link.window.send(frame);
        }
    }

    private void sendToSelf(Member self, byte[] frame) throws InterruptedException {
        telling.lockInterruptibly();
        try {
            tell(self, frame.clone());
        } finally {
            telling.unlock();
        }
    }

    /** Sends a message to a member, which never blocks. After the end, it is dropped. */
    private void put(Address to, byte type, long number, byte[] bytes) {
        Message message = new BytesMessage(to, bytes).putHeader(FrameHeader.KEY, new FrameHeader(type, number));
        if (type != FrameHeader.FRAME && type != FrameHeader.PROBE) {
            message.setFlag(Message.Flag.OOB);
        }
        if (type == FrameHeader.PING || type == FrameHeader.PONG) {
            message.setFlag(Message.Flag.NO_RELIABILITY);
        }
        try {
            stack.channel.send(message);
        } catch (Exception e) {
            logger.log(Level.FINE, "A message was dropped, since the network has ended.", e);
        }
    }

    /** A thread of JGroups has a message. The frames of one member come in turn, everything else in any order. */
    private void receive(Message message) {
        FrameHeader header = message.getHeader(FrameHeader.KEY);
        Address from = message.getSrc();
        if (header == null || header.type <= FrameHeader.PROBE && barred.contains(from)) {
            return;
        }
        switch (header.type) {
            case FrameHeader.FRAME -> receiveFrame(from, header.number, bytes(message));
            case FrameHeader.PROBE -> receiveProbe(from, header.number);
            case FrameHeader.ACKNOWLEDGE -> {
                Link link = links.get(idOf(from));
                if (link != null) {
                    link.window.acknowledge(header.number);
                }
            }
            case FrameHeader.HELLO, FrameHeader.ASK -> {
                byte[] name = bytes(message);
                tasks.add(() -> meet(from, header, name));
            }
            case FrameHeader.PING -> put(from, FrameHeader.PONG, 0, null);
            case FrameHeader.PONG -> {
                if (answers.answered(from)) {
                    look();
                }
            }
            default -> logger.log(Level.FINE, "A message of an unknown type was dropped.");
        }
    }

    private static byte[] bytes(Message message) {
        byte[] array = message.getArray();
        int offset = message.getOffset();
        int length = message.getLength();
        if (array == null) {
            return new byte[0];
        }
        return offset == 0 && length == array.length ? array : Arrays.copyOfRange(array, offset, offset + length);
    }

    private void receiveFrame(Address from, long position, byte[] frame) {
        boolean acknowledge;
        telling.lock();
        try {
            Inbox inbox = inboxes.computeIfAbsent(from, address -> new Inbox());
            if (position <= inbox.last) {
                return;
            }
            inbox.last = position;
            Member member = names.get(from);
            if (member == null || !inbox.held.isEmpty()) {
                inbox.held.add(new Inbox.Held(position, frame));
                return;
            }
            tell(member, frame);
            acknowledge = isDue(inbox, position);
        } finally {
            telling.unlock();
        }
        if (acknowledge) {
            put(from, FrameHeader.ACKNOWLEDGE, position, null);
        }
    }

    private void receiveProbe(Address from, long position) {
        boolean acknowledge;
        telling.lock();
        try {
            Inbox inbox = inboxes.get(from);
            acknowledge = inbox == null || inbox.held.isEmpty();
        } finally {
            telling.unlock();
        }
        if (acknowledge) {
            put(from, FrameHeader.ACKNOWLEDGE, position, null);
        }
    }

    private static boolean isDue(Inbox inbox, long position) {
        boolean due = position - inbox.acknowledged >= Window.SHARE;
        if (due) {
            inbox.acknowledged = position;
        }
        return due;
    }

    /** Tells a frame, with the lock held. */
    private void tell(Member from, byte[] frame) {
        if (!over) {
            try {
                events.frame(from, frame);
            } catch (RuntimeException e) {
                logger.log(Level.WARNING, "The receiver of a frame failed.", e);
            }
        }
    }

    // --- the loop

    private void loop() {
        try {
            while (!over) {
                step(tasks.poll(isWaiting() ? SOON_MILLIS : settings.heartbeatMillis / 2 + 1, TimeUnit.MILLISECONDS));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // the end
        }
    }

    /** Runs a task, if there is one, and does what is due. A failure must not end the loop, which tells all views. */
    private void step(Runnable task) {
        try {
            if (task != null) {
                task.run();
            }
            advance();
        } catch (RuntimeException e) {
            logger.log(Level.WARNING, "The loop of the network " + settings.cluster + " failed, and goes on.", e);
        }
    }

    /** Lets the loop look for what is new. */
    private void look() {
        tasks.add(() -> {});
    }

    private boolean isWaiting() {
        return !joined.isDone() || !cuts.isEmpty() || membership != null && !membership.unknown(membership.members()).isEmpty();
    }

    private void advance() {
        if (membership != null) {
            endCuts();
            decideAge();
            askAgain();
            ping();
            tellNext();
        }
    }

    private void accept(org.jgroups.View next) {
        long now = System.nanoTime();
        if (membership == null) {
            self = stack.channel.address();
            membership = new Membership(self);
            elders = new ArrayList<>(next.getMembers().subList(0, Math.max(0, next.getMembers().indexOf(self))));
            patience = now + TimeUnit.MILLISECONDS.toNanos(MAX_ASK_MILLIS);
        }
        List<Address> fresh = membership.accept(next);
        elders.retainAll(next.getMembers());
        ask(fresh);
    }

    /** Introduces this member to these, and asks for their names where they are unknown. */
    private void ask(List<Address> members) {
        byte[] name = settings.name.getBytes(StandardCharsets.UTF_8);
        for (Address member : members) {
            if (!member.equals(self)) {
                byte type = membership.known(member) == null ? FrameHeader.ASK : FrameHeader.HELLO;
                put(member, type, age, name);
            }
        }
        nextAsk = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ASK_MILLIS);
    }

    private void askAgain() {
        if (System.nanoTime() - nextAsk >= 0) {
            ask(membership.unknown(membership.members()));
        }
    }

    private void ping() {
        if (System.nanoTime() - nextPing >= 0) {
            nextPing = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(settings.heartbeatMillis);
            List<Address> others = new ArrayList<>(membership.members());
            others.remove(self);
            answers.begin(others);
            others.forEach(other -> put(other, FrameHeader.PING, 0, null));
        }
    }

    /** Another member has told its name, or asks for ours. */
    private void meet(Address from, FrameHeader header, byte[] name) {
        if (membership == null || name.length > MAX_NAME) {
            return;
        }
        if (header.number != FrameHeader.UNKNOWN && membership.known(from) == null) {
            Member member = new Member(new String(name, StandardCharsets.UTF_8), idOf(from));
            membership.introduce(from, new AgedMember(member, header.number));
            release(from, member);
        }
        if (header.type == FrameHeader.ASK && age != FrameHeader.UNKNOWN) {
            put(from, FrameHeader.HELLO, age, settings.name.getBytes(StandardCharsets.UTF_8));
        }
    }

    /** Tells the frames that waited for the name of their sender, and lets others through from now on. */
    private void release(Address from, Member member) {
        telling.lock();
        try {
            names.put(from, member);
            Inbox inbox = inboxes.get(from);
            while (inbox != null && !inbox.held.isEmpty()) {
                tell(member, inbox.held.poll().frame());
            }
        } finally {
            telling.unlock();
        }
    }

    /** Decides how old this member is, when it knows how old the members are that were there before. */
    private void decideAge() {
        if (age == FrameHeader.UNKNOWN && (membership.unknown(elders).isEmpty() || System.nanoTime() - patience >= 0)) {
            age = membership.ageAfter(elders);
            selfId = idOf(self);
            membership.introduce(self, new AgedMember(new Member(settings.name, selfId), age));
            ask(membership.members());
        }
    }

    private void tellNext() {
        boolean isFirst = !joined.isDone();
        if (isFirst && !membership.unknown(membership.members()).isEmpty() && System.nanoTime() - patience < 0) {
            return; // better a first view with all that are there
        }
        Set<Address> absent = answers.absent();
        absent.addAll(cuts.keySet());
        View next = membership.next(absent);
        if (next == null) {
            return;
        }
        link(next);
        telling.lock();
        try {
            if (!over) {
                view = next;
                events.view(next);
            }
        } catch (RuntimeException e) {
            logger.log(Level.WARNING, "The receiver of a view failed.", e);
        } finally {
            telling.unlock();
        }
        joined.complete(membership.known(self).member());
    }

    /** Makes links to the members that have come, and ends those to the ones that have left. */
    private void link(View next) {
        Set<Long> present = new HashSet<>();
        for (Address address : membership.members()) {
            AgedMember aged = membership.known(address);
            if (aged != null && next.members().contains(aged.member())) {
                present.add(aged.member().id());
                links.computeIfAbsent(aged.member().id(), id -> new Link(address, new Window(
                        (type, position, bytes) -> put(address, type, position, bytes), newPosition())));
                if (!cuts.containsKey(address)) {
                    barred.remove(address);
                }
            }
        }
        links.forEach((id, link) -> {
            if (!present.contains(id)) {
                links.remove(id);
                link.window.close();
            }
        });
    }

    private long newPosition() {
        return (System.nanoTime() - origin) * POSITIONS_PER_NANO;
    }

    private static long idOf(Address address) {
        UUID uuid = (UUID) address;
        return uuid.getMostSignificantBits() ^ Long.rotateLeft(uuid.getLeastSignificantBits(), 17);
    }

    // --- cuts

    /**
     * {@inheritDoc}
     *
     * <p>JGroups has no such operation. Nothing is sent to the member and nothing taken from it for so long that both sides
     * have noticed. Then it comes back by itself.
     */
    @Override
    public void cut(Member other) {
        Link link = links.get(other.id());
        if (link != null && other.id() != selfId) {
            long millis = settings.detectMillis + 2 * settings.heartbeatMillis + settings.verifyMillis;
            barred.add(link.address);
            cuts.put(link.address, System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis));
            stack.cuts.from.add(link.address);
            stack.cuts.to.add(link.address);
            look();
        }
    }

    private void endCuts() {
        long now = System.nanoTime();
        cuts.forEach((address, end) -> {
            if (now - end >= 0) {
                cuts.remove(address);
                stack.cuts.from.remove(address);
                stack.cuts.to.remove(address);
            }
        });
    }

    /** For tests: a broken cable, in one direction or both, until it is mended. */
    void sever(Member other, boolean from, boolean to) {
        Address address = links.get(other.id()).address;
        if (from) {
            stack.cuts.from.add(address);
        }
        if (to) {
            stack.cuts.to.add(address);
        }
    }

    /** For tests: ends the node as if its program were killed. A leave afterwards tells the others nothing. */
    void crash() {
        stack.cuts.all = true;
        sockets.close();
        stack.transport.clearConnections(false);
    }

    /** For tests: mends all that {@link #sever} broke. */
    void mend() {
        if (stack != null) {
            stack.cuts.from.clear();
            stack.cuts.to.clear();
        }
    }
}
