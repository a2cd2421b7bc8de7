package magnetar.kernel.process;

import java.util.List;

/**
 * A process at one instant.
 *
 * @param pid its pid
 * @param thread the thread that runs it, or null
 * @param life ALIVE, EXITING or DEAD
 * @param name its registered name, or null
 * @param links the processes it is linked to
 * @param monitoredBy the processes that watch it, once for each monitor
 * @param monitors the processes that it watches: pids, or the names it used
 * @param calls the process whose answer it waits for, or null
 * @param messages how many messages wait in its mailbox
 * @param taken how many messages it has taken out of its mailbox so far, or dropped; perhaps outdated
 * @param trapsExits whether exit signals become messages
 * @param suspended whether it is suspended, and takes no message
 * @param leader its group leader
 * @param dictionary a value that the Clojure API keeps
 */
public record ProcessInfo(Pid pid, Thread thread, String life, Object name, List<Pid> links, List<Pid> monitoredBy, List<Object> monitors, Pid calls,
        int messages, long taken, boolean trapsExits, boolean suspended, Pid leader, Object dictionary) {}
