package magnetar.kernel.park;

import magnetar.kernel.fiber.Environment;

/**
 * What a thread waits for in the kernel, as {@link Parked#waitOf} reads it.
 *
 * @param reason why
 * @param on the object it waits on: a channel, the pid of a process, a select, a fork or another object; or
 *     null
 * @param since when the wait began, in nanoseconds on the clock of {@link Environment#nanoTime}; approximate
 * @param id unique to this wait within its environment
 */
public record WaitInfo(WaitReason reason, Object on, long since, long id) {}
