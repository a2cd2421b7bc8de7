package magnetar.check;

import static magnetar.check.Support.require;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import magnetar.kernel.fiber.Cancelled;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.Fiber;
import magnetar.kernel.scope.Fork;
import magnetar.kernel.scope.OnCancel;
import magnetar.kernel.scope.Scope;
import magnetar.kernel.time.Durations;
import magnetar.kernel.time.Waits;

/** Scopes without the Clojure API: the end of forks, deadlines, and shields. */
final class Scopes {
    private static final long LONG = 3600_000_000_000L;

    private Scopes() {}

    private static Scope open(long nanos) {
        return Scope.open("check", fork -> fork.error() != null, nanos);
    }

    private static void inFiber(Support.Body body) throws Exception {
        AtomicReference<Throwable> thrown = new AtomicReference<>();
        Support.join(Support.fiber(Environment.REAL, () -> {
            try {
                body.run();
            } catch (Throwable t) {
                thrown.set(t);
            }
        }));
        require(thrown.get() == null, "the check failed: " + thrown);
    }

    private static long deadline() {
        return Scope.deadlineOf(Fiber.current());
    }

    /** The earlier deadline counts, except one that a shield masks. */
    static void deadlines() throws Exception {
        inFiber(() -> {
            require(deadline() == Durations.INFINITE, "no scope, no deadline");
            Scope outer = open(LONG);
            Scope inner = open(2 * LONG);
            require(inner.deadline() == outer.deadline() && deadline() == outer.deadline(), "nested deadlines shrink");
            inner.close();
            Fiber.current().shield(() -> {
                require(deadline() == Durations.INFINITE, "a shield masks the deadline");
                Scope own = open(2 * LONG);
                require(own.deadline() - outer.deadline() > 0 && deadline() == own.deadline(), "a scope in a shield has its own");
                Fiber.current().shield(() -> require(deadline() == Durations.INFINITE, "a shield in it masks that too"));
                own.close();
            });
            require(deadline() == outer.deadline(), "after the shield the deadline counts");
            outer.close();
        });
    }

    /** A closed scope has no fork left, and its owner has neither an interrupt nor a cause. */
    static void closing() throws Exception {
        inFiber(() -> {
            AtomicInteger ended = new AtomicInteger();
            for (int round = 0; round < 200; round++) {
                Scope scope = open(Durations.INFINITE);
                for (int i = 0; i < 5; i++) {
                    scope.fork("waits", i == 0, () -> {
                        try {
                            Waits.sleep(LONG);
                        } finally {
                            ended.incrementAndGet();
                        }
                        return null;
                    });
                }
                Fork fails = scope.fork("fails", false, () -> {
                    throw new IllegalStateException("on purpose");
                });
                try {
                    scope.join();
                    require(false, "a failing fork cancels the body");
                } catch (Cancelled e) {
                    require(e.why() == fails, "the cause is the fork that failed");
                }
                scope.close();
                require(scope.live().isEmpty() && scope.isClosed(), "a fork is left");
                require(!Thread.currentThread().isInterrupted() && !Fiber.current().isCancelled(), "the cancellation leaks");
            }
            require(ended.get() <= 1000, "a fork ended twice");
        });
    }

    /**
     * Closing runs all clean-ups, the last first, and throws the first error with the later ones suppressed.
     */
    static void cleanUps() throws Exception {
        inFiber(() -> {
            AtomicInteger ran = new AtomicInteger();
            IllegalStateException first = new IllegalStateException("first");
            IllegalStateException second = new IllegalStateException("second");
            try (Scope scope = open(Durations.INFINITE)) {
                scope.onExit(ran::incrementAndGet);
                scope.onExit(() -> {
                    throw second;
                });
                scope.onExit(() -> {
                    throw first;
                });
                scope.join();
            } catch (IllegalStateException e) {
                require(e == first && e.getSuppressed().length == 1 && e.getSuppressed()[0] == second, "which errors: " + e);
            }
            require(ran.get() == 1, "a clean-up did not run");
            require(Scope.enclosing(Fiber.current()) == null, "the scope is left");
        });
    }

    /** An environment that cannot start threads. */
    private static final class Full extends Environment {
        @Override
        public Thread newThread(String name, Runnable task) {
            return new Thread(task, name) {
                @Override
                public void start() {
                    throw new OutOfMemoryError("planned");
                }
            };
        }
    }

    /** A fork whose fiber cannot be started throws, and the scope does not wait for it. */
    static void unstarted() throws Exception {
        AtomicReference<Throwable> thrown = new AtomicReference<>();
        AtomicReference<Object> left = new AtomicReference<>();
        Support.join(Support.fiber(new Full(), () -> {
            Scope scope = open(Durations.INFINITE);
            try {
                scope.fork("never begins", false, () -> null);
            } catch (OutOfMemoryError e) {
                thrown.set(e);
            }
            left.set(scope.live());
            scope.join();
            scope.end();
        }));
        require(thrown.get() != null && "planned".equals(thrown.get().getMessage()), "the error of the start: " + thrown);
        require(List.of().equals(left.get()), "the fork is left: " + left);
    }

    /**
     * A cancellation that races with the opening, or with the close of an inner one, is not missed: the function
     * ends the wait, or the fiber is told at the opening. No interrupt is left when the scope has ended. If the
     * function cannot be started, the interrupt comes at once, and the close does not wait for it.
     */
    static void onCancel() throws Exception {
        race(0);
        race(20);
        AtomicReference<Object> interrupted = new AtomicReference<>();
        Support.join(Support.fiber(new Full(), () -> {
            Scope scope = open(Durations.INFINITE);
            interrupted.set(OnCancel.call("never begins", () -> {}, Durations.INFINITE, () -> {
                scope.cancel("check");
                return Thread.currentThread().isInterrupted();
            }));
            scope.end();
        }));
        require(Boolean.TRUE.equals(interrupted.get()), "the interrupt of a function that was not started: " + interrupted);
    }

    private static void callInner(int times) {
        try {
            for (int i = 0; i < times; i++) {
                OnCancel.call("inner", () -> {}, Durations.INFINITE, () -> null);
            }
        } catch (Cancelled e) { // the outer one learns of it, too
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    private static void race(int inner) throws Exception {
        inFiber(() -> {
            for (int round = 0; round < 3000; round++) {
                int spins = round % 100;
                Scope scope = open(Durations.INFINITE);
                CountDownLatch waits = new CountDownLatch(1);
                CountDownLatch begins = new CountDownLatch(1);
                scope.fork("cancels", false, () -> {
                    begins.await();
                    scope.cancel("check");
                    return null;
                });
                begins.countDown();
                for (int i = 0; i < spins; i++) {
                    Thread.onSpinWait();
                }
                try {
                    OnCancel.call("check", waits::countDown, Durations.INFINITE, () -> {
                        callInner(inner);
                        require(waits.await(20, TimeUnit.SECONDS), "a cancellation was missed");
                        return null;
                    });
                } catch (Cancelled e) {
                    require(waits.getCount() == 1 || scope.isCancelled(), "cancelled without a cause");
                }
                scope.end();
                require(!Thread.interrupted(), "an interrupt was left");
            }
        });
    }
}
