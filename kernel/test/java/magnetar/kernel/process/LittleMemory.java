package magnetar.kernel.process;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import magnetar.kernel.park.Waiter;

/** Deaths that are told while memory runs out at the first push of the message. */
public final class LittleMemory {
    private LittleMemory() {}

    /** A mailbox whose first push runs out of memory. */
    private static final class Scarce extends Mailbox {
        private final OpenMailbox mailbox = new OpenMailbox();
        private boolean failed;

        @Override
        Waiter push(Node node) {
            if (!failed) {
                failed = true;
                throw new OutOfMemoryError("planned");
            }
            return mailbox.push(node);
        }

        @Override
        Waiter pushSignal(Node node) {
            return push(node);
        }

        @Override
        Node takeInbox() {
            return mailbox.takeInbox();
        }

        @Override
        int inboxSize() {
            return mailbox.inboxSize();
        }

        @Override
        void close() {
            mailbox.close();
        }

        @Override
        boolean isClosed() {
            return mailbox.isClosed();
        }

        @Override
        int findInInbox(Predicate<Object> wanted) {
            return mailbox.findInInbox(wanted);
        }

        @Override
        void peekInInbox(int most, List<Object> found) {
            mailbox.peekInInbox(most, found);
        }

        @Override
        public boolean enlist(Waiter waiter) {
            return mailbox.enlist(waiter);
        }

        @Override
        public void delist(Waiter waiter) {
            mailbox.delist(waiter);
        }
    }

    private static LocalProcess process(int serial, Mailbox mailbox) {
        return new Spawn.OnThread(new Pid(serial, Refs.creation(), "little memory"), mailbox);
    }

    /** A process that traps exits and is linked to this one. */
    private static LocalProcess linked(LocalProcess dead, int serial) {
        LocalProcess me = process(serial, new Scarce());
        me.setTraps(true);
        Links.underBoth(dead, me, (a, b) -> {
            Links.tie(a, b);
            return null;
        });
        return me;
    }

    /** What a process that traps exits receives of the death of a linked one. */
    public static Object ofLinked() {
        LocalProcess dead = process(1, new OpenMailbox());
        LocalProcess me = linked(dead, 2);
        new DeathNotice(dead.pid(), "why", List.of(), List.of(me.pid()), List.of(), List.of(), null).announce();
        return received(me, Links.isLinked(me, dead.pid()));
    }

    /** What a process receives of the death of one that it monitors. */
    public static Object ofMonitored() {
        LocalProcess dead = process(1, new OpenMailbox());
        LocalProcess me = process(2, new Scarce());
        Monitor monitor = new Monitor(1, Refs.creation(), me.pid(), 0, dead.pid(), dead.pid(), "DOWN");
        Monitors.keep(me, monitor);
        new DeathNotice(dead.pid(), "why", List.of(), List.of(), List.of(monitor), List.of(), null).announce();
        return received(me, !Monitors.watching(me).isEmpty());
    }

    /** How many of so many linked processes receive the death of one, if each push runs out of memory once. */
    public static long ofManyLinked(int many) {
        LocalProcess dead = process(1, new OpenMailbox());
        List<LocalProcess> parties = new ArrayList<>();
        for (int i = 0; i < many; i++) {
            parties.add(linked(dead, 2 + i));
        }
        new DeathNotice(dead.pid(), "why", List.of(), parties.stream().map(LocalProcess::pid).toList(), List.of(), List.of(), null).announce();
        return parties.stream().filter(p -> p.mailbox().takeInbox() != null).count();
    }

    /** How many of three processes learn that a node is lost: one is linked, one monitors, and one has asked for a process. */
    public static int ofLostNode() {
        Peer peer = Peers.peer("lost@host", 1, NOWHERE);
        Connection connection = new Connection(peer);
        peer.connect(NOWHERE, connection);
        LocalProcess linked = process(2, new Scarce());
        linked.setTraps(true);
        connection.link(linked, peer.pid(1));
        LocalProcess monitoring = process(3, new Scarce());
        Monitor monitor = new Monitor(1, Refs.creation(), monitoring.pid(), 0, peer.pid(1), peer.pid(1), "DOWN");
        Monitors.keep(monitoring, monitor);
        connection.watch(monitoring, monitor);
        LocalProcess asking = process(4, new Scarce());
        connection.spawn(new Signal.Spawn(asking.pid(), new Ref(2, Refs.creation(), asking.pid(), 0), null, "work", true, true, null));
        connection.down();
        List<LocalProcess> parties = List.of(linked, monitoring, asking);
        return connection.entries() > 0 ? -1 : (int) parties.stream().filter(p -> received(p, false) instanceof List<?>).count();
    }

    private static final Transport NOWHERE = new Transport() {
        @Override
        public void send(Connection to, Signal signal) {}

        @Override
        public void awaitRoom(Connection to) {}
    };

    private static Object received(LocalProcess me, boolean stillTied) {
        Node message = me.mailbox().takeInbox();
        if (stillTied) {
            return "the link or monitor is left";
        }
        return message == null ? null : message.next == null ? message.message : "two messages";
    }
}
