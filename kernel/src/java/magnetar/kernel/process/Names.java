package magnetar.kernel.process;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;

/** Which process has which name. Claimed and released under the monitor of the process, so a dead one has none. */
final class Names {
    private static final ConcurrentHashMap<Object, Process> NAMES = new ConcurrentHashMap<>();

    private Names() {}

    /** Who has the name already; null if this process has it now. */
    static Process claim(Object name, Process process) {
        return NAMES.putIfAbsent(name, process);
    }

    static void release(Object name, Process process) {
        NAMES.remove(name, process);
    }

    static Process find(Object name) {
        return NAMES.get(name);
    }

    static List<Object> all() {
        return new ArrayList<>(NAMES.keySet());
    }
}
