package magnetar.kernel.sim;

/** An object of a simulation whose text is its name in logs and reports, the same in each run. */
interface Spoken {}
