package magnetar.kernel.process;

import magnetar.kernel.fiber.Fiber;

/**
 * Handles the signals of another node: each acts on a process of this node as it would if a process here had sent it.
 *
 * <p>A message may go past the bound of a mailbox, if that makes its senders wait: the stream must not wait for one
 * process, and a sender on another node cannot be told to.
 */
final class Arrivals {
    private Arrivals() {}

    // Not a switch over types, which the JVM links when it first runs, and memory may have run out by then.
    static void handle(Connection from, Signal signal) {
        if (signal instanceof Signal.Message s) {
            message(s);
        } else if (signal instanceof Signal.Monitor s) {
            monitor(from, s);
        } else if (signal instanceof Signal.Demonitor s) {
            from.ignore(s.ref());
        } else if (signal instanceof Signal.Down s) {
            from.fire(s.ref(), s.reason());
        } else if (signal instanceof Signal.Exit s) {
            exit(s);
        } else if (signal instanceof Signal.Spawn s) {
            spawn(from, s);
        } else if (signal instanceof Signal.SpawnReply s) {
            from.answer(s.ref(), s.result());
        } else {
            aboutLink(from, signal);
        }
    }

    private static void aboutLink(Connection from, Signal signal) {
        if (signal instanceof Signal.Link s) {
            link(from, s);
        } else if (signal instanceof Signal.ExitLink s) {
            linkedDied(from, s);
        } else if (signal instanceof Signal.Unlink s) {
            from.unlinked(find(s.to()), s);
        } else if (signal instanceof Signal.UnlinkAck s) {
            from.unlinkAnswered(s.to(), s.from(), s.id());
        }
    }

    private static LocalProcess find(Object to) {
        return to instanceof Pid pid ? ProcessTable.live(pid) : Names.find(to);
    }

    private static void message(Signal.Message s) {
        if (s.to() instanceof Ref alias) {
            answer(alias, s);
            return;
        }
        LocalProcess p = find(s.to());
        if (p == null || !Delivery.deliverFromNode(p, s.message(), s.context())) {
            DeadLetters.add(s.to(), s.message(), s.context());
        }
    }

    // Nothing is forwarded, so an alias of a third node is one of no process.
    private static void answer(Ref alias, Signal.Message s) {
        LocalProcess p = Send.maker(alias);
        if (p == null) {
            Traffic.loses(alias, s.message(), s.context());
        } else {
            Aliases.deliver(p, alias, s.message(), s.context());
        }
    }

    private static void exit(Signal.Exit s) {
        LocalProcess p = find(s.to());
        if (p != null) {
            p.exit(s.from(), s.reason(), false, s.context());
        }
    }

    private static void link(Connection from, Signal.Link s) {
        LocalProcess p = find(s.to());
        if (p == null || !from.list(p, s.from(), false)) {
            from.tell(new Signal.ExitLink(s.to(), s.from(), Dialect.get().noproc));
        }
    }

    private static void linkedDied(Connection from, Signal.ExitLink s) {
        LocalProcess p = find(s.to());
        if (p != null) {
            from.otherDied(p.pid(), s.from());
            p.exit(s.from(), s.reason(), true, null);
        }
    }

    private static void monitor(Connection from, Signal.Monitor s) {
        LocalProcess p = find(s.to());
        if (p == null || !from.beginWatched(p, s.from(), s.to(), s.ref())) {
            from.tell(new Signal.Down(s.to(), s.from(), s.ref(), Dialect.get().noproc));
        }
    }

    // --- starting processes ------------------------------------------------------------------------------------------

    private static void spawn(Connection from, Signal.Spawn s) {
        Fiber starter = Fiber.current();
        Object own = starter.enterContext(s.context()); // the new process takes it, and not the one of this fiber
        try {
            Spawn.spawn(new Spawn.Options("for " + from.peer()).naming(child -> begin(from, s, child)), from.work(s.what()));
        } catch (Exception | LinkageError | AssertionError e) {
            from.tell(new Signal.SpawnReply(s.from(), s.ref(), Dialect.codec().reason(e)));
        } finally {
            starter.leaveContext(own);
        }
    }

    /** Links and monitors a process that does not run yet, and says that it is there. */
    private static void begin(Connection from, Signal.Spawn s, Pid child) {
        LocalProcess p = child.process(); // null if another process has found and killed it
        if (p != null && s.leader() != null) {
            p.setLeader(s.leader());
        }
        from.tell(new Signal.SpawnReply(s.from(), s.ref(), child));
        if (s.link() && (p == null || !from.list(p, s.from(), false))) {
            from.tell(new Signal.ExitLink(child, s.from(), Dialect.get().killed));
        }
        if (s.monitor() && (p == null || !from.beginWatched(p, s.from(), child, s.ref()))) {
            from.tell(new Signal.Down(child, s.from(), s.ref(), Dialect.get().killed));
        }
    }
}
