package magnetar.kernel.sim;

import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.process.Pid;

/** Names of objects that are the same in each run: by kind, in the order in which they were first asked for. */
final class Names {
    private final Map<Object, String> names = new IdentityHashMap<>(); // asked by object only, never gone through
    private final Map<String, Integer> counts = new HashMap<>();

    String of(Object object) {
        return switch (object) {
            case null -> null;
            case String s -> s;
            case SimFiber f -> f.toString();
            case Pid p -> "process " + p.serial() + (p.label() == null ? "" : " " + p.label());
            case List<?> many -> String.join(", ", many.stream().map(this::of).toList());
            default -> names.computeIfAbsent(object, this::name);
        };
    }

    private String name(Object object) {
        String kind = object instanceof Channel ? "channel" : object.getClass().getSimpleName().toLowerCase(java.util.Locale.ROOT);
        return kind + " " + counts.merge(kind, 1, Integer::sum);
    }
}
