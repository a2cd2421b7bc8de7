package magnetar.kernel.process;

/**
 * A process that was killed and whose thread runs on.
 *
 * @param pid its pid
 * @param thread the thread that does not end
 * @param reason the exit reason that others were told
 * @param nanos how long ago it was killed
 */
public record Zombie(Pid pid, Thread thread, Object reason, long nanos) {}
