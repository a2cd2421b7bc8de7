package magnetar.kernel.process;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import magnetar.kernel.fiber.PerWorld;

/** Which process has which name. Claimed and released under the monitor of the process, so a dead one has none. */
final class Names {
    private static final PerWorld<ConcurrentHashMap<Object, LocalProcess>> NAMES = PerWorld.of(ConcurrentHashMap::new);

    private Names() {}

    /** Who has the name already; null if this process has it now. */
    static LocalProcess claim(Object name, LocalProcess process) {
        return NAMES.current().putIfAbsent(name, process);
    }

    static void release(Object name, LocalProcess process) {
        NAMES.current().remove(name, process);
    }

    static LocalProcess find(Object name) {
        return Words.language().isName(name) ? NAMES.current().get(name) : null;
    }

    static List<Object> all() {
        return new ArrayList<>(NAMES.current().keySet());
    }
}
