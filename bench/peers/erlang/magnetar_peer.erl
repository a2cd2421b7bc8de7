%% The workloads of bench/README.md in Erlang. Reads lines `workload number ..`, answers each with the nanoseconds it took
%% (for `memory-actors` and `memory-servers`: bytes of resident memory for each process; for `echo`: the port it listens on; for `computing`: several numbers).
-module(magnetar_peer).
-export([main/0, timed/1, init/1, handle_call/3, handle_cast/2]).

init(State) -> {ok, State}.
handle_call(N, _, Sum) -> {reply, Sum + N, Sum + N}.
handle_cast(N, Sum) -> {noreply, Sum + N}.

main() ->
    logger:set_primary_config(level, none),
    loop(io:get_line("")).

loop(eof) -> halt();
loop(Line) ->
    say(answer(string:lexemes(Line, " \n"))),
    loop(io:get_line("")).

say(Numbers) when is_list(Numbers) -> io:format("~s~n", [lists:join(" ", [integer_to_list(N) || N <- Numbers])]);
say(Number) -> io:format("~.1f~n", [float(Number)]).

answer(["times", N | Words]) -> lists:sum([answer(Words) || _ <- lists:seq(1, list_to_integer(N))]);
answer([What | Numbers]) -> in_process(What, [list_to_integer(N) || N <- Numbers]).

%% Each piece of work has a process of its own, with a fresh heap; one that fails ends the node.
in_process(What, Numbers) ->
    erlang:garbage_collect(),
    {Pid, Ref} = spawn_monitor(fun() -> exit({answer, work(What, Numbers)}) end),
    receive
        {'DOWN', Ref, process, Pid, {answer, X}} -> X;
        {'DOWN', Ref, process, Pid, Why} -> io:format(standard_error, "~p~n", [Why]), halt(1)
    end.

timed(Work) ->
    Start = erlang:monotonic_time(nanosecond),
    Work(),
    erlang:monotonic_time(nanosecond) - Start.

times(0, _) -> ok;
times(N, F) -> F(), times(N - 1, F).

%% A token goes around N processes, the one that measures among them.
work("ring-actors", [N, Rounds]) ->
    Hops = hops(N - 1, self(), []),
    timer:sleep(3 * N div 1000), % all get to where they wait
    Took = timed(fun() -> times(Rounds, fun() -> hd(Hops) ! token, receive token -> ok end end) end),
    [exit(P, kill) || P <- Hops],
    Took;
work("ping-pong-actors", [N]) ->
    Me = self(),
    Pong = spawn(fun() -> pong(Me) end),
    Took = timed(fun() -> times(N, fun() -> Pong ! ping, receive pong -> ok end end) end),
    exit(Pong, kill),
    Took;
work("mailbox", [Senders, N]) ->
    Me = self(),
    Share = N div Senders,
    timed(fun() ->
        [spawn(fun() -> times(Share, fun() -> Me ! x end) end) || _ <- lists:seq(1, Senders)],
        times(Share * Senders, fun() -> receive x -> ok end end)
    end);
work("server-call", [Callers, N]) ->
    {ok, Server} = gen_server:start(?MODULE, 0, []),
    Me = self(),
    Share = N div Callers,
    Took = timed(fun() ->
        [spawn(fun() -> times(Share, fun() -> gen_server:call(Server, 1) end), Me ! done end) || _ <- lists:seq(1, Callers)],
        times(Callers, fun() -> receive done -> ok end end)
    end),
    gen_server:stop(Server),
    Took;
work("spawn-actors", [N]) ->
    Me = self(),
    Left = atomics:new(1, []),
    atomics:put(Left, 1, N),
    timed(fun() ->
        times(N, fun() -> spawn(fun() -> count_down(Left, Me) end) end),
        receive done -> ok end
    end);
work("spawn-join-actors", [N]) ->
    timed(fun() ->
        times(N, fun() ->
            {Pid, Ref} = spawn_monitor(fun() -> ok end),
            receive {'DOWN', Ref, process, Pid, normal} -> ok end
        end)
    end);
work("pmap", [N]) ->
    Me = self(),
    In = lists:duplicate(N, 1),
    Start = erlang:monotonic_time(nanosecond),
    Pids = [spawn(fun() -> Me ! {self(), X + 1} end) || X <- In],
    Out = [receive {Pid, X} -> X end || Pid <- Pids],
    Took = erlang:monotonic_time(nanosecond) - Start,
    N = lists:sum(Out) div 2,
    Took;
work("memory-actors", [N]) ->
    per_process(N, fun() -> spawn(fun() -> receive stop -> ok end end) end);
work("memory-servers", [N]) ->
    per_process(N, fun() -> {ok, P} = gen_server:start(?MODULE, 0, []), P end);
work("timers", [N]) ->
    timed(fun() ->
        All = [erlang:start_timer(10000 + I rem 1000, self(), x) || I <- lists:seq(1, N)],
        [erlang:cancel_timer(R) || R <- All]
    end);
work("mixed", [Sleepers, Workers]) ->
    Me = self(),
    timed(fun() ->
        [spawn(fun() -> timer:sleep(250), Me ! x end) || _ <- lists:seq(1, Sleepers)],
        [spawn(fun() -> factors(1548587 * 982451653, 2, 0), Me ! x end) || _ <- lists:seq(1, Workers)],
        times(Sleepers + Workers, fun() -> receive x -> ok end end)
    end);
work("sleep", [N]) ->
    Me = self(),
    timed(fun() ->
        [spawn(fun() -> timer:sleep(10), Me ! x end) || _ <- lists:seq(1, N)],
        times(N, fun() -> receive x -> ok end end)
    end);
work("crawl", [Port, Pages]) ->
    {ok, _} = application:ensure_all_started(inets),
    httpc:set_options([{max_sessions, Pages}, {max_keep_alive_length, 0}]),
    Me = self(),
    timed(fun() ->
        [spawn(fun() -> Me ! page(Port, I) end) || I <- lists:seq(1, Pages)],
        times(Pages, fun() -> receive {page, _} -> ok end end)
    end);
work("echo", []) ->
    Me = self(),
    spawn(fun() ->
        {ok, Server} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}, {backlog, 1024}, {nodelay, true}]),
        {ok, Port} = inet:port(Server),
        Me ! {port, Port},
        accept(Server)
    end),
    receive {port, Port} -> Port end;
work("computing", Numbers) ->
    magnetar_computing:work(Numbers);
work(What, Numbers) ->
    magnetar_savina:work(What, Numbers).

page(Port, I) ->
    Url = "http://127.0.0.1:" ++ integer_to_list(Port) ++ "/" ++ integer_to_list(I),
    {ok, {_, _, Body}} = httpc:request(get, {Url, []}, [], []),
    Body = "page /" ++ integer_to_list(I),
    {page, length(Body)}.

accept(Server) ->
    {ok, Socket} = gen_tcp:accept(Server),
    Pid = spawn(fun() -> receive start -> echo(Socket) end end),
    ok = gen_tcp:controlling_process(Socket, Pid),
    Pid ! start,
    accept(Server).

echo(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Bytes} -> gen_tcp:send(Socket, Bytes), echo(Socket);
        {error, _} -> ok
    end.

hops(0, _, Hops) -> Hops;
hops(N, Next, Hops) -> P = spawn(fun() -> hop(Next) end), hops(N - 1, P, [P | Hops]).

hop(Next) -> receive M -> Next ! M, hop(Next) end.

pong(To) -> receive _ -> To ! pong, pong(To) end.

count_down(Left, To) ->
    case atomics:sub_get(Left, 1, 1) of
        0 -> To ! done;
        _ -> ok
    end.

resident() ->
    {ok, Text} = file:read_file("/proc/self/statm"),
    [_, Pages | _] = string:split(binary_to_list(Text), " ", all),
    list_to_integer(Pages) * 4096.

per_process(N, Start) ->
    Before = resident(),
    All = [Start() || _ <- lists:seq(1, N)],
    timer:sleep(3000),
    Bytes = (resident() - Before) / N,
    [exit(P, kill) || P <- All],
    Bytes.

factors(1, _, Count) -> Count;
factors(N, P, Count) when N rem P =:= 0 -> factors(N div P, P, Count + 1);
factors(N, P, Count) when P * P >= N -> Count + 1;
factors(N, P, Count) when P > 2 -> factors(N, P + 2, Count);
factors(N, P, Count) -> factors(N, P + 1, Count).
