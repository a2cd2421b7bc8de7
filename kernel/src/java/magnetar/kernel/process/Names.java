package magnetar.kernel.process;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;

/** Which process has which name. Claimed and released under the monitor of the process, so a dead one has none. */
final class Names {
    private static final ConcurrentHashMap<Object, LocalProcess> NAMES = new ConcurrentHashMap<>();

    private Names() {}

    /** Who has the name already; null if this process has it now. */
    static LocalProcess claim(Object name, LocalProcess process) {
        return NAMES.putIfAbsent(name, process);
    }

    static void release(Object name, LocalProcess process) {
        NAMES.remove(name, process);
    }

    static LocalProcess find(Object name) {
        return NAMES.get(name);
    }

    static List<Object> all() {
        return new ArrayList<>(NAMES.keySet());
    }
}
