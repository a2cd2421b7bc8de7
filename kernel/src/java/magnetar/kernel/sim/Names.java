package magnetar.kernel.sim;

import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongFunction;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.process.Pid;

/** Names for objects, the same in each run: the kind, and the order in which they were first named. */
final class Names {
    private final Map<Object, String> names = new IdentityHashMap<>(); // looked up only, never iterated
    private final Map<String, Integer> counts = new HashMap<>();
    private final List<SimFiber> fibers;
    private final LongFunction<String> nodes;

    /** Names, where {@code nodes} is from a creation to what the names of its processes begin with. */
    Names(List<SimFiber> fibers, LongFunction<String> nodes) {
        this.fibers = fibers;
        this.nodes = nodes;
    }

    String of(Object object) {
        return switch (object) {
            case null -> null;
            case String s -> s;
            case SimFiber f -> f.toString();
            case Spoken s -> s.toString();
            case Pid p -> names.computeIfAbsent(p, this::ofProcess);
            case List<?> many -> String.join(", ", many.stream().map(this::of).toList());
            default -> names.computeIfAbsent(object, this::name);
        };
    }

    /** The fiber that runs the process, else the process's own name. */
    private String ofProcess(Object pid) {
        for (SimFiber f : fibers) {
            if (f.runs((Pid) pid)) {
                return f.toString();
            }
        }
        return "process " + nodes.apply(((Pid) pid).creation()) + ((Pid) pid).serial() + (((Pid) pid).label() == null ? "" : " " + ((Pid) pid).label());
    }

    /** The class without what differs between JVMs: the numbers of functions, the addresses of lambdas. */
    private static String kind(Class<?> of) {
        return of.getSimpleName().replaceAll("__\\d+|\\$\\$Lambda.*", "").toLowerCase(java.util.Locale.ROOT);
    }

    private String name(Object object) {
        String kind = object instanceof Channel ? "channel" : kind(object.getClass());
        return kind + " " + counts.merge(kind, 1, Integer::sum);
    }
}
