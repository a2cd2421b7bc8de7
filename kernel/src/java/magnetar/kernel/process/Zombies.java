package magnetar.kernel.process;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import magnetar.kernel.fiber.PerWorld;
import magnetar.kernel.fiber.World;

/** Processes that were killed and whose threads still run. Those of a simulation are its own, and their time is virtual. */
public final class Zombies {
    private static final PerWorld<Map<LocalProcess, Long>> KILLED = PerWorld.of(ConcurrentHashMap::new); // and when

    private Zombies() {}

    static void add(LocalProcess process) {
        KILLED.current().put(process, World.current().nanoTime());
    }

    static void remove(LocalProcess process) {
        KILLED.current().remove(process);
    }

    /** All of them, the first one killed first. */
    public static List<Zombie> all() {
        long now = World.current().nanoTime();
        List<Zombie> zombies = new ArrayList<>();
        KILLED.current().forEach((p, since) -> zombies.add(p.zombie(now - since)));
        zombies.sort(Comparator.comparingLong(Zombie::nanos).reversed().thenComparing(Zombie::pid));
        return zombies;
    }
}
