package magnetar.kernel.process;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import magnetar.kernel.fiber.Cancelled;
import magnetar.kernel.fiber.Exit;

/**
 * A codec: how a language above writes exit reasons and the kernel's own messages. The defaults are for plain
 * Java.
 */
public interface Codec {
    /** The constant of this name: normal, kill, killed, noproc, noconnection, abandoned, cancelled, DOWN. */
    default Object constant(String name) {
        return name;
    }

    /** The message that a process which traps exits gets instead of exiting. */
    default Object exit(Pid from, Object reason) {
        return Arrays.asList("EXIT", from, reason); // either may be null: no sending process, no reason
    }

    /** The message of a monitor. */
    default Object down(Object tag, Ref ref, Object object, Object reason) {
        return Arrays.asList(tag, ref, "process", object, reason);
    }

    /** The answer to a request for a process of another node: its pid, or the reason why it was not started. */
    default Object spawned(Ref ref, Object result) {
        return Arrays.asList("spawn_reply", ref, result instanceof Pid ? "ok" : "error", result);
    }

    /** The request of a call, as a server receives it. */
    default Object request(Pid from, Ref ref, Object message) {
        return Arrays.asList("call", Map.entry(from, ref), message);
    }

    /** True if the message is the request with this reference. */
    default boolean isRequest(Ref ref, Object message) {
        return message instanceof List<?> l && l.size() == 3 && l.get(1) instanceof Map.Entry<?, ?> from && from.getValue() == ref;
    }

    /**
     * True if the message answers the request with this reference. Not asked for a {@code Map.Entry} of
     * reference and answer, which the kernel knows.
     */
    default boolean isReply(Ref ref, Object message) {
        return false;
    }

    /** The answer in such a message. */
    default Object replied(Object message) {
        return message;
    }

    /** True if the message was sent by the monitor with this reference. */
    default boolean isDown(Ref ref, Object message) {
        return message instanceof List<?> l && l.size() == 5 && l.get(1) == ref;
    }

    /** The exit reason in the message of a monitor. */
    default Object reasonOfDown(Object message) {
        return ((List<?>) message).get(4);
    }

    /** The message of a timer that was started with a reference. */
    default Object timeout(Ref ref, Object message) {
        return Arrays.asList("timeout", ref, message);
    }

    /**
     * The message about what a traced process has sent (to an address) or received (then {@code to} is null).
     */
    default Object trace(Pid who, Object message, Object to) {
        return to == null ? Arrays.asList("trace", who, "receive", message)
                : Arrays.asList("trace", who, "send", message, to);
    }

    /** The exit reason of a process that threw this. */
    default Object reason(Throwable thrown) {
        if (thrown instanceof Exit e) {
            return e.reason();
        }
        return thrown instanceof Cancelled ? constant("cancelled") : List.of(String.valueOf(thrown));
    }

    /**
     * The exit reason of a process that ends because memory ran out, and whose own reason cannot be written.
     * Made in advance.
     */
    default Object noMemory() {
        return List.of("java.lang.OutOfMemoryError");
    }

    /** The exit reason for a value that the program gave as one. */
    default Object given(Object reason) {
        return reason;
    }

    /**
     * True if a process may be registered under this value. Other values are not looked up, because computing
     * their hash may not end.
     */
    default boolean isName(Object x) {
        return true;
    }

    /** The error for a misuse of this kind, with a sentence and data by name. */
    default RuntimeException misuse(String kind, String sentence, Map<String, Object> data) {
        return new IllegalArgumentException(sentence);
    }

    /**
     * A value as text of bounded length. Runs no code of the program, because the timer thread may call it.
     */
    default String text(Object value) {
        String s = String.valueOf(value);
        return s.length() > 200 ? s.substring(0, 200) + "..." : s;
    }
}
