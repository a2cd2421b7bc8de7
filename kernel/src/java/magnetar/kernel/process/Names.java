package magnetar.kernel.process;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import magnetar.kernel.fiber.PerEnvironment;

/**
 * The registered names. A name is claimed and released under the lock of its process, so a dead process
 * has none.
 */
final class Names {
    private static final PerEnvironment<ConcurrentHashMap<Object, LocalProcess>> NAMES = PerEnvironment.of(ConcurrentHashMap::new);

    private Names() {}

    /** Registers the process and returns null, or returns the process that has the name already. */
    static LocalProcess claim(Object name, LocalProcess process) {
        return NAMES.current().putIfAbsent(name, process);
    }

    static void release(Object name, LocalProcess process) {
        NAMES.current().remove(name, process);
    }

    static LocalProcess find(Object name) {
        return Dialect.codec().isName(name) ? NAMES.current().get(name) : null;
    }

    static List<Object> all() {
        return new ArrayList<>(NAMES.current().keySet());
    }
}
