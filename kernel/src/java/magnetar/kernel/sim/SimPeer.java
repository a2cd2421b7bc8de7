package magnetar.kernel.sim;

import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.Random;

/**
 * What one member of a simulated network believes of another one, and the frames that are under way from there.
 *
 * <p>Rules:
 * <ol>
 *   <li>A member in the view is lost while it is gone, cannot be heard, or does not believe in the owner, because it
 *       then sends no signs of life there. After the detector's time it leaves the view.
 *   <li>A member outside of the view is found while it is there and both ways are open. It comes back after half the
 *       detector's time to all of it. So two members find each other before one loses the other again.
 *   <li>When a member leaves the view, what is held on the ways between the two is lost, and each frame under way with
 *       a probability of one half.
 * </ol>
 */
final class SimPeer {
    private static final int OVERHEAD = 64; // bytes of a frame beside its content

    private enum Next {
        NOTHING,
        LEAVES,
        COMES
    }

    private record Frame(long due, byte[] bytes) {}

    final SimMember owner;
    final SimMember other;
    private final Random random;
    private final ArrayDeque<Frame> frames = new ArrayDeque<>(); // under way, in order
    private final ArrayDeque<byte[]> held = new ArrayDeque<>(); // by a cut, in order
    private long lastDue;
    private long free; // when the way is no longer occupied
    private int bytes;

    boolean isInView;
    private boolean barred; // cut off by the owner
    private boolean parts; // it has told that it leaves
    private Next next = Next.NOTHING;
    private int plans; // how many; only the last one counts
    private boolean merges;
    int changes; // how often it has left the view

    SimPeer(SimMember owner, SimMember other) {
        this.owner = owner;
        this.other = other;
        this.random = new Random((owner.network.simulation.config.seed * 31 + owner.id()) * 0x9E3779B97F4A7C15L + other.id());
    }

    private SimNetwork network() {
        return owner.network;
    }

    private long now() {
        return network().simulation.now;
    }

    private long drawn(long least, long most) {
        return least + (most <= least ? 0 : random.nextLong(most - least + 1));
    }

    long latency() {
        return drawn(network().leastLatency(), network().mostLatency());
    }

    // --- frames ------------------------------------------------------------------------------------------------------

    boolean hasRoom() {
        return bytes < network().window();
    }

    /** Takes a frame that the other one has sent. */
    void accept(byte[] frame) {
        bytes += frame.length + OVERHEAD;
        if (network().isCut(other, owner)) {
            held.add(frame);
        } else {
            travel(frame);
        }
    }

    private void travel(byte[] frame) {
        free = Math.max(free, now()) + network().occupied(other, owner, frame.length + OVERHEAD);
        lastDue = Math.max(lastDue, free + latency());
        frames.add(new Frame(lastDue, frame));
        owner.wakeAt(lastDue);
    }

    /** Holds what is under way, or lets what was held travel. */
    void wayChanged(boolean cut) {
        if (cut) {
            ArrayDeque<byte[]> later = new ArrayDeque<>(held);
            held.clear();
            frames.forEach(f -> held.add(f.bytes));
            held.addAll(later);
            frames.clear();
            free = 0;
        } else {
            while (!held.isEmpty()) {
                travel(held.poll());
            }
        }
    }

    /** Called when the owner or the other one has changed its view. */
    private void loseSome() {
        while (!held.isEmpty()) {
            drop(held.poll());
        }
        for (Iterator<Frame> i = frames.iterator(); i.hasNext(); ) {
            byte[] frame = i.next().bytes;
            if (random.nextBoolean()) {
                i.remove();
                drop(frame);
            }
        }
        other.wakeSenders();
    }

    private void drop(byte[] frame) {
        bytes -= frame.length + OVERHEAD;
    }

    // --- belief ------------------------------------------------------------------------------------------------------

    private boolean isLost() {
        return !other.isThere() || network().isCut(other, owner) || !other.sees(owner);
    }

    private boolean isFound() {
        return other.isThere() && !network().isCut(other, owner) && !network().isCut(owner, other);
    }

    /** Called when something has changed that the belief depends on. */
    void reconsider() {
        if (other == owner) {
            return;
        }
        Next wanted = isInView ? isLost() ? Next.LEAVES : Next.NOTHING : isFound() ? Next.COMES : Next.NOTHING;
        if (wanted != next) {
            long detector = network().detector();
            plan(wanted, now() + (wanted == Next.LEAVES ? drawn(detector, detector + detector / 4) : drawn(detector / 2, detector)), true);
        }
    }

    private void plan(Next what, long due, boolean merged) {
        next = what;
        merges = merged;
        int plan = ++plans;
        if (what != Next.NOTHING) {
            network().simulation.at(due, () -> act(plan));
        }
    }

    private void act(int plan) {
        if (plan == plans && owner.isThere()) {
            if (next == Next.LEAVES) {
                leaves();
            } else {
                comes();
            }
        }
    }

    /** Called when the other one has just joined. */
    void greet() {
        if (isFound()) {
            plan(Next.COMES, now() + latency(), false);
        }
    }

    /** Called when the other one leaves, after its frames. */
    void part() {
        if (isInView && !network().isCut(other, owner)) {
            parts = true;
            plan(Next.LEAVES, Math.max(lastDue, now() + latency()), false);
        } else {
            vanish();
        }
    }

    /** Called when the other one is gone, and has told nothing. */
    void vanish() {
        reconsider();
        forgetIfGone();
    }

    /** The other one leaves the view now, although it may be there. */
    void suspect() {
        if (isInView && other != owner) {
            leaves();
        }
    }

    /** The same, and frames from it are dropped until it is back. */
    void bar() {
        if (other != owner) {
            barred = true;
            suspect();
        }
    }

    /** Called at the first view of the owner: takes the other one into it if it is found. */
    void meet() {
        if (isFound()) {
            isInView = true;
            plan(Next.NOTHING, 0, false);
            other.peer(owner).reconsider();
        }
    }

    // --- what is due -------------------------------------------------------------------------------------------------

    /** When the first frame is due, {@link Long#MAX_VALUE} without frames. */
    long due() {
        return frames.isEmpty() ? Long.MAX_VALUE : frames.peek().due;
    }

    /** Hands the first frame to the owner, on its fiber. */
    void deliver() {
        byte[] frame = frames.poll().bytes;
        try {
            if (!barred) {
                owner.tell(other, frame);
            }
        } finally {
            drop(frame);
            other.wakeSenders();
            forgetIfGone();
        }
    }

    private void leaves() {
        isInView = false;
        plan(Next.NOTHING, 0, false);
        changes++;
        if (!parts) {
            loseSome();
        }
        SimPeer back = other.peer(owner);
        if (back != null) {
            back.loseSome();
        }
        changed(false);
        forgetIfGone();
    }

    /** Forgets the other one, if it is gone for good and in no view. */
    private void forgetIfGone() {
        if (!other.isThere() && !isInView && frames.isEmpty()) {
            owner.forget(other);
        }
    }

    private void comes() {
        isInView = true;
        barred = false;
        boolean merged = merges;
        plan(Next.NOTHING, 0, false);
        changed(merged);
    }

    private void changed(boolean merged) {
        owner.newView(merged);
        reconsider();
        if (other.isThere()) {
            other.peer(owner).reconsider();
        }
    }
}
