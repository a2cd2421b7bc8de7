package magnetar.kernel.sim;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.network.Member;
import magnetar.kernel.network.Network;
import magnetar.kernel.network.View;
import magnetar.kernel.report.Failures;

/** A simulated network as one node sees it. One of the simulator's own fibers of that node calls the events. */
final class SimMember implements Network, Spoken {
    private enum State {
        NEW,
        JOINED,
        LEFT,
        CRASHED
    }

    final SimNetwork network;
    final SimNode node;
    private final String name;

    // Only accessed by the fiber that the carrier runs.
    private final Map<SimMember, SimPeer> peers = new LinkedHashMap<>(); // also itself; the oldest first
    private final List<Thread> waiting = new ArrayList<>(); // for a view, for room, or for the end of an event
    private State state = State.NEW;
    private Member self;
    private Events events;
    private View view;
    private View newest; // which may not have been told yet
    private final ArrayDeque<Told> views = new ArrayDeque<>(); // to be told
    private SimFiber fiber;
    private boolean telling;

    private record Told(long at, View view) {}

    SimMember(SimNetwork network, SimNode node, String name) {
        this.network = network;
        this.node = node;
        this.name = name;
    }

    private Simulation simulation() {
        return network.simulation;
    }

    long id() {
        return self.id();
    }

    boolean isThere() {
        return state == State.JOINED;
    }

    SimPeer peer(SimMember other) {
        return peers.get(other);
    }

    void forget(SimMember gone) {
        peers.remove(gone);
    }

    boolean sees(SimMember other) {
        SimPeer p = peers.get(other);
        return p != null && p.isInView;
    }

    // --- Network -----------------------------------------------------------------------------------------------------

    @Override
    public Member join(Events told) throws InterruptedException {
        refuseElsewhere("join");
        if (state != State.NEW) {
            throw new IllegalStateException("The member " + self + " has joined already: make another endpoint of the node to join once more.");
        }
        self = new Member(name, network.nextId());
        events = told;
        state = State.JOINED;
        enter();
        node.onCrash.add(this::crash);
        fiber = simulation().startOwn(node, "network", this::run);
        simulation().log("joins", fiber, self.toString());
        await(() -> view != null);
        return self;
    }

    private void enter() {
        peers.put(this, new SimPeer(this, this));
        for (SimMember m : network.members()) {
            peers.put(m, new SimPeer(this, m));
            m.peers.put(this, new SimPeer(m, this));
            m.peers.get(this).greet();
        }
        network.members().add(this);
        peers.get(this).isInView = true;
        simulation().at(simulation().now + peers.get(this).latency(), this::meet);
    }

    @Override
    public View view() {
        return view;
    }

    @Override
    public void send(Member to, byte[] frame) throws InterruptedException {
        refuseElsewhere("send");
        if (simulation().isRunning(fiber)) {
            throw new IllegalStateException("`send` was called in an event of the network, which it may hold up: send on another fiber.");
        }
        if (frame.length > MAX_FRAME) {
            throw new IllegalArgumentException("A frame has at most " + MAX_FRAME + " bytes; this one has " + frame.length + ": send it in parts.");
        }
        Simulated.switchPoint();
        SimPeer mine = peerOf(to);
        if (mine == null || !mine.isInView) {
            return;
        }
        network.reachFrame(this, mine.other);
        SimPeer theirs = mine.other.peer(this);
        int before = mine.changes;
        await(() -> !isThere() || mine.changes != before || theirs.hasRoom());
        if (isThere() && mine.changes == before) {
            simulation().log("sends", mine.other.fiber, frame.length + " bytes");
            theirs.accept(frame.clone());
        }
    }

    private SimPeer peerOf(Member member) {
        if (!isThere()) {
            return null;
        }
        for (SimPeer p : peers.values()) {
            if (p.other.self.equals(member)) {
                return p;
            }
        }
        return null;
    }

    @Override
    public void cut(Member other) {
        SimPeer p = peerOf(other);
        if (p != null) {
            simulation().log("cuts off", p.other.fiber, null);
            p.bar();
        }
    }

    /** Lets the other one leave the view, although it may be there. */
    void suspect(SimMember other) {
        simulation().log("suspects", other.fiber, null);
        peers.get(other).suspect();
    }

    @Override
    public String address() {
        return "simulated:" + node.name;
    }

    @Override
    public void leave() throws InterruptedException {
        refuseElsewhere("leave");
        if (isThere()) {
            simulation().log("leaves", fiber, null);
            go(State.LEFT);
            network.members().forEach(m -> m.peer(this).part());
            LockSupport.unpark(fiber.thread);
        }
        if (!simulation().isRunning(fiber)) {
            await(() -> !telling);
        }
    }

    private void crash() {
        if (isThere()) {
            go(State.CRASHED);
            network.members().forEach(m -> m.peer(this).vanish());
        }
    }

    private void go(State end) {
        state = end;
        network.members().remove(this);
        wakeSenders();
    }

    private void refuseElsewhere(String what) {
        if (Simulated.environment() != node || node.isGone()) {
            throw new IllegalStateException("`" + what + "` of an endpoint of " + node + " was called elsewhere: call it there, by on-node."
                    + (node.isGone() ? " That node has crashed: take an endpoint of the node that was started after it." : ""));
        }
    }

    // --- waits -------------------------------------------------------------------------------------------------------

    private void await(SimEnvironment.Condition over) throws InterruptedException {
        Thread me = Thread.currentThread();
        waiting.add(me);
        try {
            node.await(over, this);
        } finally {
            waiting.remove(me);
        }
    }

    /** Called when a sender, or another fiber that waits here, may go on. */
    void wakeSenders() {
        for (Thread t : waiting) {
            simulation().wakes(t);
            LockSupport.unpark(t);
        }
    }

    // --- events ------------------------------------------------------------------------------------------------------

    void wayChanged(String from, String to, boolean cut) {
        for (SimPeer p : peers.values()) {
            boolean isIncoming = p.other.node.name.equals(from) && node.name.equals(to);
            if (isIncoming) {
                p.wayChanged(cut);
            }
            if (isIncoming || p.other.node.name.equals(to) && node.name.equals(from)) {
                p.reconsider();
            }
        }
    }

    /** Lets the fiber look what is due at this instant. */
    void wakeAt(long due) {
        if (due > simulation().now) {
            simulation().at(due, this::wake);
        } else {
            wake();
        }
    }

    private void wake() {
        if (fiber != null) {
            LockSupport.unpark(fiber.thread);
        }
    }

    private void run() {
        while (!simulation().ending && isThere()) {
            SimPeer p = firstDue();
            if (p == null && views.isEmpty()) {
                LockSupport.park(this);
            } else {
                Simulated.switchPoint();
                act();
            }
        }
    }

    /** The peer of which a frame is due first, or null if none is due yet. No frame comes before the first view. */
    private SimPeer firstDue() {
        SimPeer first = null;
        if (newest == null) {
            return first;
        }
        for (SimPeer p : peers.values()) {
            if (p.due() <= simulation().now && (first == null || p.due() < first.due())) {
                first = p;
            }
        }
        return first;
    }

    /** Tells what was first, if it is still so after others have run. */
    private void act() {
        SimPeer p = firstDue();
        if (!isThere()) {
            return;
        }
        if (!views.isEmpty() && (p == null || views.peek().at < p.due())) {
            View next = views.poll().view;
            tell(() -> {
                events.view(next);
                view = next;
            });
            wakeSenders();
        } else if (p != null) {
            p.deliver();
        }
    }

    private void meet() {
        if (isThere()) {
            List.copyOf(peers.values()).forEach(SimPeer::meet);
            List.copyOf(peers.values()).forEach(SimPeer::reconsider);
            newView(false);
        }
    }

    /** Called when what it believes has changed. */
    void newView(boolean merged) {
        List<Member> members = peers.values().stream().filter(p -> p.isInView).map(p -> p.other.self).sorted((a, b) -> Long.compare(a.id(), b.id())).toList();
        newest = new View(members, merged);
        simulation().log(merged ? "merged view" : "view", fiber, members.toString());
        views.add(new Told(simulation().now, newest));
        wake();
        wakeSenders();
    }

    void tell(SimMember from, byte[] frame) {
        simulation().log("gets", from.fiber, frame.length + " bytes");
        tell(() -> events.frame(from.self, frame));
    }

    private void tell(Runnable event) {
        telling = true;
        try {
            event.run();
        } catch (Throwable t) {
            Failures.report(Thread.currentThread(), t);
        } finally {
            telling = false;
            if (!isThere()) {
                wakeSenders();
            }
        }
    }

    @Override
    public String toString() {
        return "the network on " + node;
    }
}
