package magnetar.check;

import static magnetar.check.Support.require;

import java.lang.ref.WeakReference;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.process.Monitors;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.ProcessTable;
import magnetar.kernel.process.Ref;
import magnetar.kernel.process.Refs;
import magnetar.kernel.process.Send;
import magnetar.kernel.process.Spawn;
import magnetar.kernel.process.Zombies;

/** Processes in numbers: what dead ones leave, when they free what they held, and fairness. */
final class Deaths {
    private Deaths() {}

    /**
     * Many processes start and end, some with a name, a link or a monitor. Afterwards no list mentions them.
     */
    static void leaveNothing(int processes) throws Exception {
        Harness.finished(Harness.spawn(() -> {
            Harness.me().trapExits(true);
            for (int i = 0; i < processes; i += 4) {
                Spawn.Options options = new Spawn.Options("named").name("name " + i).links(true).monitors(true);
                Spawn.spawn(options, () -> 1);
                Pid killed = Harness.spawn(() -> Harness.next());
                Send.exit(killed, "kill");
                for (int n = 0; n < 2; n++) {
                    Harness.spawn(() -> Refs.make(Harness.me()));
                }
                Harness.next();
                Harness.next();
            }
            require(Harness.me().info().links().isEmpty() && Harness.me().info().monitors().isEmpty(), "a link or a monitor to the dead");
        }));
        Support.until("no fiber is left", () -> Fibers.count() == 0);
        require(ProcessTable.names().isEmpty(), "names of the dead: " + ProcessTable.names());
        require(ProcessTable.all().isEmpty() && Zombies.all().isEmpty(), "the dead are listed");
    }

    /** The pid of a dead process keeps its value reachable, and nothing else that it had. */
    static void keptPid() throws Exception {
        List<Pid> pids = new ArrayList<>();
        List<WeakReference<Object>> held = new ArrayList<>();
        for (int i = 0; i < 30; i++) {
            pids.add(holder(i % 3, held));
        }
        for (Pid pid : pids) {
            Harness.reasonOf(pid);
        }
        Support.until("what the dead held is collected; left: " + held.size(), () -> {
            System.gc();
            return held.stream().allMatch(h -> h.get() == null);
        });
        for (int i = 0; i < pids.size(); i++) {
            Object value = pids.get(i).ended().value();
            require(i % 3 == 0 ? value instanceof int[] a && a.length == 7 : value == null, "the value of " + pids.get(i) + " is " + value);
        }
    }

    /** A process that keeps objects reachable from its closure, dictionary, mailbox and stack. */
    private static Pid holder(int how, List<WeakReference<Object>> held) throws Exception {
        Object closed = new byte[1000];
        Object said = new byte[1000];
        Object kept = new byte[1000];
        for (Object o : new Object[] {closed, said, kept}) {
            held.add(new WeakReference<>(o));
        }
        CountDownLatch ready = new CountDownLatch(1);
        Pid pid = Spawn.spawn("holder", () -> {
            Harness.me().setDictionary(kept);
            Object local = new byte[1000];
            synchronized (held) {
                held.add(new WeakReference<>(local));
            }
            ready.countDown();
            Harness.take(m -> m.equals("end") && local != closed);
            return new int[7];
        });
        ready.await();
        Send.send(pid, said);
        if (how == 0) {
            Send.send(pid, "end");
        } else {
            Send.exit(pid, how == 1 ? "kill" : "x");
        }
        return pid;
    }

    /**
     * A listening server is told to exit and, when it is dead, started again on the same port; a thousand
     * times.
     */
    static void listeningSocket(int restarts) throws Exception {
        InetAddress loopback = InetAddress.getLoopbackAddress();
        int port;
        try (ServerSocket any = new ServerSocket(0, 1, loopback)) {
            port = any.getLocalPort();
        }
        Harness.finished(Harness.spawn(() -> {
            for (int i = 0; i < restarts; i++) {
                int how = i;
                AtomicBoolean bound = new AtomicBoolean();
                Pid server = Harness.spawn(() -> {
                    try (ServerSocket socket = new ServerSocket()) {
                        socket.setReuseAddress(false);
                        socket.bind(new InetSocketAddress(loopback, port));
                        bound.set(true);
                        if (how % 2 == 0) {
                            socket.accept();
                        } else {
                            awaitInAScopeOfItsOwn();
                        }
                    }
                });
                Monitors.monitor(Harness.me(), server, server, null, Ref.Alias.NONE);
                Support.until("it listens", () -> bound.get() || !server.isAlive());
                Send.exit(server, "restart");
                List<?> down = (List<?>) Harness.next();
                require(down.getLast().equals("restart"), "start " + i + " ended by " + down.getLast());
            }
        }));
    }

    /** Waits for a message. Its clean-up is slow. */
    private static void awaitInAScopeOfItsOwn() throws InterruptedException {
        try {
            Harness.next();
        } finally {
            for (int n = 0; n < 10; n++) {
                Thread.yield();
            }
        }
    }

    /**
     * One process more than there are cores sends to itself without end. A quiet process, woken from outside,
     * makes progress.
     */
    static void fairness() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        int cores = Runtime.getRuntime().availableProcessors();
        CountDownLatch flooding = new CountDownLatch(cores);
        for (int i = 0; i <= cores; i++) {
            Harness.spawn(() -> {
                for (int n = 0; !stop.get(); n++) {
                    Send.send(Harness.me().pid(), n);
                    Harness.next();
                    if (n == 10_000) {
                        flooding.countDown();
                    }
                }
            });
        }
        Support.until("the loops run", () -> flooding.getCount() == 0);
        AtomicInteger steps = new AtomicInteger();
        Pid quiet = Harness.spawn(() -> {
            for (int i = 0; i < 20; i++) {
                Harness.next();
                steps.incrementAndGet();
            }
        });
        for (int i = 0; i < 20; i++) {
            int sent = i;
            Send.send(quiet, i);
            Support.until("among flooded loops the quiet process makes step " + i, 5, () -> steps.get() > sent);
        }
        stop.set(true);
        Support.until("all end", () -> Fibers.count() == 0);
    }
}
