package magnetar.kernel.process;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.World;

/** Which process has which name. Claimed and released under the monitor of the process, so a dead one has none. */
final class Names {
    private static final Names REAL = new Names();

    private final ConcurrentHashMap<Object, LocalProcess> names = new ConcurrentHashMap<>();

    private Names() {}

    private static ConcurrentHashMap<Object, LocalProcess> names() {
        World simulated = Simulated.world();
        return (simulated == null ? REAL : simulated.room(Names.class, Names::new)).names;
    }

    /** Who has the name already; null if this process has it now. */
    static LocalProcess claim(Object name, LocalProcess process) {
        return names().putIfAbsent(name, process);
    }

    static void release(Object name, LocalProcess process) {
        names().remove(name, process);
    }

    static LocalProcess find(Object name) {
        return Words.language().isName(name) ? names().get(name) : null;
    }

    static List<Object> all() {
        return new ArrayList<>(names().keySet());
    }
}
