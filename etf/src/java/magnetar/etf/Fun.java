package magnetar.etf;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/**
 * A fun of Erlang with its free variables. It can be kept and sent back, and not called.
 *
 * <p>The parts are kept apart, not as the bytes that came: these may name atoms by their place in the
 * cache of one connection, and would mean others elsewhere.
 */
public final class Fun {

    private final int arity;
    private final byte[] uniq;
    private final long index;
    private final String module;
    private final long oldIndex;
    private final long oldUniq;
    private final Object pid;
    private final List<Object> free;

    Fun(int arity, byte[] uniq, long index, String module, long oldIndex, long oldUniq, Object pid,
            List<Object> free) {
        this.arity = arity;
        this.uniq = uniq;
        this.index = index;
        this.module = module;
        this.oldIndex = oldIndex;
        this.oldUniq = oldUniq;
        this.pid = pid;
        this.free = free;
    }

    public int arity() {
        return arity;
    }

    /** A copy of the 16 bytes that tell the version of the module. */
    public byte[] uniq() {
        return uniq.clone();
    }

    public long index() {
        return index;
    }

    public String module() {
        return module;
    }

    public long oldIndex() {
        return oldIndex;
    }

    public long oldUniq() {
        return oldUniq;
    }

    /** The process in which the fun was made: a {@link Pid}, or what the hook of the codec has read. */
    public Object pid() {
        return pid;
    }

    /** The values of its free variables. */
    public List<Object> free() {
        return free;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Fun f && arity == f.arity && index == f.index && oldIndex == f.oldIndex
                && oldUniq == f.oldUniq && module.equals(f.module) && Arrays.equals(uniq, f.uniq)
                && Objects.equals(pid, f.pid) && Arrays.deepEquals(free.toArray(), f.free.toArray());
    }

    @Override
    public int hashCode() {
        return 31 * (31 * Arrays.hashCode(uniq) + Long.hashCode(index)) + Arrays.deepHashCode(free.toArray());
    }

    @Override
    public String toString() {
        return "Fun[module=" + module + ", index=" + index + ", arity=" + arity + "]";
    }
}
