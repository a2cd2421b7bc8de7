package magnetar.kernel.process;

/** The reference of one monitor: who watches, whom, and how the message of its end begins. */
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

    /** What is watched at this moment: the monitor itself; null if none is. */
    Monitor call() {
        return this;
    }
}
