package magnetar.erlang.wire;

import clojure.lang.Keyword;
import java.util.List;
import magnetar.kernel.process.Pid;

/**
 * What a process of another node is to do.
 *
 * @param leader its group leader, which its output is sent to
 */
public record Call(Keyword module, Keyword function, List<?> args, Pid leader) {}
