package magnetar.kernel.process;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import magnetar.kernel.fiber.Environment;
import magnetar.kernel.fiber.PerEnvironment;

/**
 * Processes that were killed and whose threads still run. A simulation has its own, measured by its virtual
 * time.
 */
public final class Zombies {
    // With the time of the kill.
    private static final PerEnvironment<Map<LocalProcess, Long>> KILLED = PerEnvironment.of(ConcurrentHashMap::new);

    private Zombies() {}

    static void add(LocalProcess process) {
        KILLED.current().put(process, Environment.current().nanoTime());
    }

    static void remove(LocalProcess process) {
        KILLED.current().remove(process);
    }

    /** All of them, the one killed first at the front. */
    public static List<Zombie> all() {
        long now = Environment.current().nanoTime();
        List<Zombie> zombies = new ArrayList<>();
        KILLED.current().forEach((p, since) -> zombies.add(p.zombie(now - since)));
        zombies.sort(Comparator.comparingLong(Zombie::nanos).reversed().thenComparing(Zombie::pid));
        return zombies;
    }
}
