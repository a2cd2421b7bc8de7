package magnetar.kernel.process;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import magnetar.kernel.fiber.Simulated;
import magnetar.kernel.fiber.World;

/** Processes that were killed and whose threads still run. Those of a simulation are its own, and their time is virtual. */
public final class Zombies {
    private static final Zombies REAL = new Zombies();

    private final Map<LocalProcess, Long> killed = new ConcurrentHashMap<>(); // and when

    private Zombies() {}

    private static World world() {
        World simulated = Simulated.world();
        return simulated == null ? World.REAL : simulated;
    }

    private static Map<LocalProcess, Long> ofWorld(World world) {
        return (world == World.REAL ? REAL : world.room(Zombies.class, Zombies::new)).killed;
    }

    static void add(LocalProcess process) {
        World world = world();
        ofWorld(world).put(process, world.nanoTime());
    }

    static void remove(LocalProcess process) {
        ofWorld(world()).remove(process);
    }

    /** All of them, the first one killed first. */
    public static List<Zombie> all() {
        World world = world();
        long now = world.nanoTime();
        List<Zombie> zombies = new ArrayList<>();
        ofWorld(world).forEach((p, since) -> zombies.add(p.zombie(now - since)));
        zombies.sort(Comparator.comparingLong(Zombie::nanos).reversed().thenComparing(Zombie::pid));
        return zombies;
    }
}
