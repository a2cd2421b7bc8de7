package magnetar.kernel.process;

/** The reference of one monitor: the watcher, the watched process, and how the death notice begins. */
class Monitor extends Ref {
    final Pid watched;
    final Object object; // as the watcher named it: the pid, or a name
    final Object tag;

    Monitor(long id, long creation, Pid maker, long mark, Pid watched, Object object, Object tag) {
        super(id, creation, maker, mark);
        this.watched = watched;
        this.object = object;
        this.tag = tag;
    }

    @Override
    public Pid watched() {
        return watched;
    }

    /** What it watches, as the node of that process knows it: the pid, or a name there. */
    Object target() {
        return watched;
    }

    /** A monitor on the process that has a name on another node. */
    static final class Named extends Monitor {
        private final Object name;

        Named(long id, long creation, Pid maker, long mark, RemoteName watched, Object tag) {
            super(id, creation, maker, mark, watched.peer().stand(), watched.shown(), tag);
            this.name = watched.name();
        }

        @Override
        Object target() {
            return name;
        }
    }

    /** A monitor of a process of another node, which numbers its references by other words. */
    static final class Foreign extends Monitor {
        private final ForeignRef written;

        Foreign(ForeignRef written, Pid maker, Pid watched, Object object) {
            super(written.id(), written.creation(), maker, 0, watched, object, null);
            this.written = written;
        }

        @Override
        int[] more() {
            return written.more();
        }

        @Override
        Ref written() {
            return written;
        }

        @Override
        public String text() {
            return written.text();
        }
    }

    /** The reference that goes to the other node. */
    Ref written() {
        return this;
    }

    /** The monitor that is active now: this one; for a standing monitor its open call, or null. */
    Monitor call() {
        return this;
    }
}
