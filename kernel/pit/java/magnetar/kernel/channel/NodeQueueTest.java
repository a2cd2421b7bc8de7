package magnetar.kernel.channel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import magnetar.kernel.park.Waiter;
import org.junit.jupiter.api.Test;

class NodeQueueTest {
    private static final class One extends Waiter {
        private final boolean callback;

        One(boolean callback) {
            this.callback = callback;
        }

        @Override
        public long id() {
            return 1;
        }

        @Override
        public void complete(Object source, Object result) {
            throw new AssertionError("nobody completes it");
        }

        @Override
        public boolean isCallback() {
            return callback;
        }
    }

    private final NodeQueue queue = new NodeQueue();

    private static Node fiber() {
        return new Node(new One(false), 0, null);
    }

    private static Node callback() {
        return new Node(new One(true), 0, null);
    }

    private Node added(Node node) {
        queue.add(node);
        return node;
    }

    /** The nodes of the queue. Their links must agree in both directions. */
    private List<Node> nodes() {
        List<Node> forwards = new ArrayList<>();
        List<Node> backwards = new ArrayList<>();
        Node last = null;
        for (Node n = queue.first; n != null && forwards.size() < 10_000; n = n.next) {
            assertSame(queue, n.queue);
            forwards.add(n);
            last = n;
        }
        for (Node n = last; n != null && backwards.size() < 10_000; n = n.previous) {
            backwards.add(n);
        }
        Collections.reverse(backwards);
        assertEquals(forwards, backwards);
        assertEquals(forwards.size(), queue.size());
        assertEquals(forwards.isEmpty(), queue.isEmpty());
        return forwards;
    }

    @Test
    void anEmptyQueueHoldsNothing() {
        assertTrue(queue.isEmpty());
        assertEquals(0, queue.size());
        assertEquals(List.of(), nodes());
    }

    @Test
    void nodesStandInTheOrderInWhichTheyCame() {
        Node a = added(fiber());
        assertEquals(List.of(a), nodes());
        Node b = added(fiber());
        assertEquals(List.of(a, b), nodes());
        Node c = added(fiber());
        assertEquals(List.of(a, b, c), nodes());
    }

    private static List<Node> nodesOf(Object waiters) {
        List<Node> nodes = new ArrayList<>();
        for (Node n = NodeQueue.first(waiters); n != null; n = n.next) {
            nodes.add(n);
        }
        assertEquals(nodes.size(), NodeQueue.size(waiters));
        assertEquals(nodes.isEmpty(), NodeQueue.isEmpty(waiters));
        return nodes;
    }

    @Test
    void aQueueIsMadeForTheSecondNode() {
        assertEquals(List.of(), nodesOf(null));
        Node a = callback();
        assertTrue(NodeQueue.accepts((Object) null, a));
        Object one = NodeQueue.with(null, a);
        assertSame(a, one);
        assertEquals(List.of(a), nodesOf(one));
        Node b = callback();
        assertTrue(NodeQueue.accepts(one, b));
        Object two = NodeQueue.with(one, b);
        assertEquals(List.of(a, b), nodesOf(two));
        Node c = callback();
        assertSame(two, NodeQueue.with(two, c));
        assertEquals(List.of(a, b, c), nodesOf(two));
        List.of(a, b, c).forEach(((NodeQueue) two)::remove);
        assertEquals(List.of(), nodesOf(two));
        assertSame(two, NodeQueue.with(two, c));
        for (int i = 1; i < 1_024; i++) {
            ((NodeQueue) two).add(callback());
        }
        assertFalse(NodeQueue.accepts(two, callback()));
    }

    @Test
    void aNodeThatWaitsAloneIsInNoQueueAndJoinsTheOneOfTheSecond() {
        Node a = fiber();
        Object one = NodeQueue.with(null, a);
        assertNull(a.queue);
        assertSame(a, NodeQueue.first(one));
        Node b = fiber();
        NodeQueue two = (NodeQueue) NodeQueue.with(one, b);
        assertSame(two, a.queue);
        assertSame(two, b.queue);
        assertSame(a, NodeQueue.first(two));
        assertSame(a, b.previous);
        two.remove(a);
        assertEquals(List.of(b), nodesOf(two));
        two.remove(b);
        assertNull(NodeQueue.first(two));
        assertTrue(NodeQueue.accepts(two, callback()));
    }

    @Test
    void theQueueCountsTheFirstCallbackToo() {
        Object waiters = NodeQueue.with(null, callback());
        for (int i = 1; i < 1_024; i++) {
            Node node = callback();
            assertTrue(NodeQueue.accepts(waiters, node));
            waiters = NodeQueue.with(waiters, node);
        }
        assertEquals(1_024, NodeQueue.size(waiters));
        assertFalse(NodeQueue.accepts(waiters, callback()));
        assertTrue(NodeQueue.accepts(waiters, fiber()));
    }

    @Test
    void anyNodeCanLeaveAndIsOfNoQueueThen() {
        for (int leaves = 0; leaves < 3; leaves++) {
            List<Node> left = new ArrayList<>(List.of(added(fiber()), added(fiber()), added(fiber())));
            Node gone = left.remove(leaves);
            queue.remove(gone);
            assertEquals(left, nodes());
            assertNull(gone.queue);
            assertNull(gone.next);
            assertNull(gone.previous);
            left.add(added(fiber()));
            assertEquals(left, nodes());
            left.forEach(queue::remove);
            assertEquals(List.of(), nodes());
        }
    }

    @Test
    void theQueueDoesAsAList() {
        Random chance = new Random(3);
        List<Node> model = new ArrayList<>();
        for (int step = 0; step < 3_000; step++) {
            if (model.isEmpty() || chance.nextInt(5) < (model.size() < 5 ? 3 : 2)) {
                model.add(added(chance.nextBoolean() ? fiber() : callback()));
            } else {
                queue.remove(model.remove(chance.nextInt(model.size())));
            }
            assertEquals(model, nodes());
        }
    }

    @Test
    void aFiberHasRoomAlwaysAndACallbackUpToTheLimit() {
        for (int i = 0; i < 1_024; i++) {
            Node node = callback();
            assertTrue(queue.accepts(node), "number " + i);
            queue.add(node);
        }
        assertFalse(queue.accepts(callback()));
        assertTrue(queue.accepts(fiber()));
        added(fiber());
        assertFalse(queue.accepts(callback()));
        queue.remove(queue.first);
        assertTrue(queue.accepts(callback()));
    }

    @Test
    void fibersDoNotCountAgainstTheLimit() {
        for (int i = 0; i < 2_000; i++) {
            added(fiber());
        }
        assertTrue(queue.accepts(callback()));
        assertEquals(2_000, queue.size());
    }

    @Test
    void callbacksThatLostInterestAreDroppedBeforeTheLimitRefuses() {
        List<Node> kept = new ArrayList<>();
        for (int i = 0; i < 4_000; i++) {
            Node node = callback();
            assertTrue(queue.accepts(node), "number " + i);
            queue.add(node);
            if (i % 100 == 50) {
                kept.add(node);
            } else {
                node.waiter.claim();
            }
            assertTrue(queue.size() <= 2 * kept.size() + 16 + 1, queue.size() + " nodes for " + kept.size());
        }
        assertTrue(nodes().containsAll(kept));
    }

    @Test
    void itIsLookedForThoseThatLostInterestFromSixteenOnAndAtEachDoubling() {
        for (int i = 0; i < 15; i++) {
            added(callback()).waiter.claim();
        }
        assertTrue(queue.accepts(callback()));
        assertEquals(15, queue.size()); // below the first purge
        added(callback());
        assertTrue(queue.accepts(callback()));
        assertEquals(1, queue.size());
        Node second = added(callback());
        second.waiter.claim();
        assertTrue(queue.accepts(callback()));
        assertEquals(2, queue.size()); // the next purge is at sixteen again
        queue.remove(second);
        for (int i = 0; i < 15; i++) {
            added(callback());
        }
        assertTrue(queue.accepts(callback())); // 16 that wait: the next purge is at 32
        added(callback()).waiter.claim();
        assertTrue(queue.accepts(callback()));
        assertEquals(17, queue.size());
        for (int i = 0; i < 15; i++) {
            added(callback());
        }
        assertTrue(queue.accepts(callback()));
        assertEquals(31, queue.size());
    }

    @Test
    void aQueueAtItsLimitIsLookedThroughEachTime() {
        for (int i = 0; i < 1_024; i++) {
            assertTrue(queue.accepts(callback()));
            added(callback());
        }
        assertFalse(queue.accepts(callback()));
        queue.first.waiter.claim();
        assertTrue(queue.accepts(callback()));
        assertEquals(1_023, queue.size());
    }

    @Test
    void aFiberThatAsksForRoomDropsNobody() {
        for (int i = 0; i < 40; i++) {
            added(callback()).waiter.claim();
        }
        assertTrue(queue.accepts(fiber()));
        assertEquals(40, queue.size());
    }
}
