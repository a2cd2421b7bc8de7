package magnetar.check;

import static magnetar.check.Support.require;

import com.sun.management.ThreadMXBean;
import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.util.concurrent.CountDownLatch;
import magnetar.kernel.fiber.Fibers;
import magnetar.kernel.process.FullMemory;
import magnetar.kernel.process.LittleMemory;
import magnetar.kernel.process.Pid;
import magnetar.kernel.process.Send;
import magnetar.kernel.process.Spawn;
import magnetar.kernel.process.Watched;
import magnetar.kernel.report.Reserve;
import magnetar.kernel.report.Reserved;

/** The report of what fills the memory, without full memory. The times of the reports are the check's own. */
final class Memory {
    private static final long BETWEEN = 1_000_000_000L;
    private static final int FLOOD = 1000;
    private static final int OTHERS = 400;

    private static long now = System.nanoTime();

    private Memory() {}

    /** Runs the body with all that is printed on standard error going there. */
    private static void printingOn(OutputStream out, Support.Body body) throws Exception {
        PrintStream before = System.err;
        System.setErr(new PrintStream(out));
        try {
            Harness.call(body).call();
        } finally {
            System.setErr(before);
        }
    }

    /** What a report prints that comes so many nanoseconds after the last one. */
    private static String report(long later) throws Exception {
        now += later;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        printingOn(printed, () -> Watched.reportMemory(now));
        return printed.toString();
    }

    private static void requireIn(String report, String part) {
        require(report.contains(part), "\"" + part + "\" is not in the report: " + report);
    }

    private static String longest(Pid pid, int messages) {
        return "The mailbox of " + pid.toString().replace('ж', '?') + " holds " + messages + " messages.\n";
    }

    /**
     * Guests, passivated processes and those with a fiber are named by the lengths of their mailboxes, the most
     * frequent name of many by its count. Nothing is allocated, even for the first name that is not Latin.
     */
    static void named() throws Exception {
        FullMemory.prepare();
        report(BETWEEN);
        Pid fibered = Harness.spawn(() -> Harness.take(m -> m.equals("end")));
        CountDownLatch over = new CountDownLatch(1);
        for (int i = 0; i < FLOOD; i++) {
            Fibers.start("flood ж", Fibers.Hold.STRONG, () -> await(over));
            if (i < OTHERS) {
                Fibers.start("other " + i, Fibers.Hold.STRONG, () -> await(over));
            }
        }
        send(fibered, 10);
        asGuest("guest ж", () -> {
            Pid guest = Harness.me().pid();
            send(guest, 20);
            asGuest("inner guest", () -> {
                Pid inner = Harness.me().pid();
                send(inner, 30);
                long bytes = allocated();
                require(bytes == 0, "the report allocates " + bytes + " bytes");
                String report = report(BETWEEN);
                requireIn(report, longest(inner, 30) + longest(guest, 20) + longest(fibered, 10) + "Of 1401 fibers that have not ended, 1000 are \"flood ?\".\n");
            });
            requireIn(report(BETWEEN), longest(guest, 20) + longest(fibered, 10));
        });
        require(report(BETWEEN).startsWith(longest(fibered, 10)), "a guest that has ended is named");
        Send.send(fibered, "end");
        Harness.finished(fibered);
        over.countDown();
        Support.until("all have gone", () -> Fibers.count() == 0);
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private static void asGuest(String label, Support.Body body) {
        Throwable thrown = Spawn.host(new Spawn.Options(label), Harness.call(body)).thrown();
        if (thrown != null) {
            throw new AssertionError(thrown.getMessage(), thrown);
        }
    }

    private static void send(Pid to, int messages) throws InterruptedException {
        for (int i = 0; i < messages; i++) {
            Send.send(to, i);
        }
    }

    private static long allocated() throws Exception {
        long[] bytes = new long[1];
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        threads.getCurrentThreadAllocatedBytes();
        now += BETWEEN;
        printingOn(OutputStream.nullOutputStream(), () -> {
            long before = threads.getCurrentThreadAllocatedBytes();
            Watched.reportMemory(now);
            bytes[0] = threads.getCurrentThreadAllocatedBytes() - before;
        });
        return bytes[0];
    }

    private static Pid dead() throws InterruptedException {
        Pid pid = Harness.spawn(() -> {});
        Harness.finished(pid);
        return pid;
    }

    /** A process in which memory ended is told in the report that follows at once, or in none. */
    static void oldNews() throws Exception {
        Pid glutton = dead();
        String dropped = "The mailbox of " + glutton + " holds 3 messages, which were dropped when memory ended in it.\n";
        Watched.memoryEnded(glutton, 3);
        requireIn(report(BETWEEN), dropped);
        require(!report(BETWEEN).contains(glutton.toString()), "it is told twice");
        Watched.memoryEnded(glutton, 3);
        require(report(BETWEEN - 1).isEmpty(), "a report comes too soon");
        require(!report(1).contains(glutton.toString()), "it is told long after");
        Watched.memoryEnded(glutton, 3);
        requireIn(report(BETWEEN), dropped);
    }

    /** Only a thread that the JVM waits for at its end waits for another one that prints. */
    static void waits() throws Exception {
        now += BETWEEN;
        int[] seen = new int[3];
        printingOn(new OutputStream() {
            @Override
            public void write(int b) {}

            @Override
            public void write(byte[] b, int from, int length) {
                seen[0] = parks(Thread.ofVirtual().unstarted(Memory::reportLater));
                seen[1] = parks(Thread.ofPlatform().daemon().unstarted(Memory::reportLater));
                seen[2] = parks(Thread.ofPlatform().daemon(false).unstarted(Memory::reportLater));
            }
        }, () -> {
            Watched.memoryEnded(dead(), 3); // so that there is something to write
            Watched.reportMemory(now);
        });
        require(seen[0] == 0, "a virtual thread waits");
        require(seen[1] == 0, "a daemon waits");
        require(seen[2] == 1, "the last thread of a program does not wait");
    }

    /**
     * After a death that found no memory for one party, the next party is tried again as soon: the wait that grows
     * up to a second, and is told of, is for one party alone.
     */
    static void briefWaits() throws Exception {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        printingOn(printed, () -> require(LittleMemory.ofManyLinked(40) == 40, "a party was not told"));
        require(printed.size() == 0, "the waits of all parties are added up: " + printed);
    }

    /** After a guest in which memory ended, the memory for reports is reserved again, although its caller reports nothing. */
    static void reserved() throws Exception {
        require(Reserved.isWhole(), "nothing is reserved at first");
        Throwable thrown = Spawn.host(new Spawn.Options("glutton"), () -> {
            Reserve.release();
            throw new OutOfMemoryError("planned");
        }).thrown();
        require(thrown instanceof OutOfMemoryError, "the guest did not end by its error: " + thrown);
        require(Reserved.isWhole(), "what was released is not reserved again");
    }

    private static void reportLater() {
        Watched.reportMemory(now + BETWEEN);
    }

    /** 1 if the thread parks with a limit before it ends, else 0. */
    private static int parks(Thread t) {
        int parks = 0;
        t.start();
        while (t.isAlive() && parks == 0) {
            parks = t.getState() == Thread.State.TIMED_WAITING ? 1 : 0;
            Thread.onSpinWait();
        }
        return parks;
    }
}
