%% A node of the suite `cluster`, see bench/README.md: one that serves, or one that reads lines `workload number ..` and answers each with numbers.
-module(magnetar_node).
-export([main/0, main/1, init/1, handle_call/3, handle_cast/2]).

-define(PATIENCE, 60000).

init(State) -> {ok, State}.
handle_call(What, _, State) -> {reply, What, State}.
handle_cast(_, State) -> {noreply, State}.

main() ->
    logger:set_primary_config(level, none),
    register(sink, spawn(fun() -> sink(none, 0, 0) end)),
    {ok, _} = gen_server:start({local, server}, ?MODULE, 0, []),
    register(starter, spawn(fun starter/0)),
    io:format("ready~n"),
    until_eof(io:get_line("")).

main([Other]) ->
    logger:set_primary_config(level, none),
    pong = net_adm:ping(list_to_atom(Other)),
    [Sink, Server, Starter] = [rpc:call(list_to_atom(Other), erlang, whereis, [Name]) || Name <- [sink, server, starter]],
    io:format("ready~n"),
    answer_lines(Sink, Server, Starter, io:get_line("")).

until_eof(eof) -> halt();
until_eof(_) -> until_eof(io:get_line("")).

%% ---- what serves

sink(From, Batch, Left) ->
    receive
        {start, Sender, Each} -> sink(Sender, Each, Each);
        _ when Left =:= 1 -> From ! batch, sink(From, Batch, Batch);
        _ -> sink(From, Batch, Left - 1)
    end.

starter() ->
    receive {start, From} -> From ! {started, spawn(fun target/0)} end,
    starter().

target() ->
    receive
        {ping, From} -> From ! pong, target();
        die -> ok
    end.

%% ---- what measures

answer_lines(_, _, _, eof) -> halt();
answer_lines(Sink, Server, Starter, Line) ->
    [What | Words] = string:lexemes(Line, " \n"),
    say(work(What, [list_to_integer(W) || W <- Words], {Sink, Server, Starter})),
    answer_lines(Sink, Server, Starter, io:get_line("")).

say(Numbers) -> io:format("~s~n", [lists:join(" ", [integer_to_list(N) || N <- Numbers])]).

now_ns() -> erlang:monotonic_time(nanosecond).

timed(Work) ->
    Start = now_ns(),
    Work(),
    [now_ns() - Start].

times(0, _) -> ok;
times(N, F) -> F(), times(N - 1, F).

payload() -> binary:copy(<<7>>, 100).

work("collect", [], _) ->
    erlang:garbage_collect(),
    [0];
work("tell", [Batches, Batch, Ahead], {Sink, _, _}) ->
    in_process(fun() -> timed(fun() ->
        Sink ! {start, self(), Batch},
        Message = payload(),
        First = min(Batches, Ahead),
        times(First, fun() -> batch(Sink, Message, Batch) end),
        times(Batches - First, fun() -> receive batch -> ok end, batch(Sink, Message, Batch) end),
        times(First, fun() -> receive batch -> ok end end)
    end) end);
work("ask", [Callers, N], {_, Server, _}) ->
    in_process(fun() -> timed(fun() ->
        Me = self(),
        Share = N div Callers,
        Request = payload(),
        [spawn_link(fun() -> times(Share, fun() -> Request = gen_server:call(Server, Request, ?PATIENCE) end), Me ! done end)
            || _ <- lists:seq(1, Callers)],
        times(Callers, fun() -> receive done -> ok end end)
    end) end);
work("downs", [N], {_, _, Starter}) ->
    in_process(fun() -> lists:append([down(Starter) || _ <- lists:seq(1, N)]) end);
work("watch", [], {_, _, Starter}) ->
    put(watched, watched(Starter)),
    [0];
work("await-down", [], _) ->
    {_, Ref} = get(watched),
    receive {'DOWN', Ref, process, _, _} -> [0] end.

%% Each piece of work has a process of its own, with a fresh heap; one that fails ends the node.
in_process(Work) ->
    {_, Ref} = spawn_monitor(fun() -> exit({answer, Work()}) end),
    receive
        {'DOWN', Ref, process, _, {answer, X}} -> X;
        {'DOWN', Ref, process, _, Why} -> io:format(standard_error, "~p~n", [Why]), halt(1)
    end.

batch(_, _, 0) -> ok;
batch(To, Message, N) -> To ! Message, batch(To, Message, N - 1).

%% A new process of the other node, that has answered since it was monitored.
watched(Starter) ->
    Starter ! {start, self()},
    Pid = receive {started, P} -> P end,
    Ref = erlang:monitor(process, Pid),
    Pid ! {ping, self()},
    receive pong -> {Pid, Ref} end.

%% The round trip of a message; then the time from the message that ends the process to its 'DOWN'.
down(Starter) ->
    {Pid, Ref} = watched(Starter),
    T1 = now_ns(),
    Pid ! {ping, self()},
    receive pong -> ok end,
    T2 = now_ns(),
    Pid ! die,
    receive {'DOWN', Ref, process, Pid, _} -> ok end,
    [T2 - T1, now_ns() - T2].
