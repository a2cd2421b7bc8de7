package magnetar.kernel.park;

import magnetar.kernel.fiber.Environment;

/**
 * What a thread waits for in the kernel, as {@link Parked#waitOf} reads it.
 *
 * @param reason why
 * @param on the object it waits on: a channel, the pid of a process, a select, a fork or another object; or
 *     null
 * @param since when the wait began, on the clock of {@link Environment#nanoTime}
 * @param number unique to this wait
 */
public record Wait(WaitReason reason, Object on, long since, long number) {}
