%% Processes that compute beside others that wait and a server: see bench/README.md.
-module(magnetar_computing).
-export([work/1]).

%% The ticks of all tickers; then for each call when it began and how long it took, in microseconds.
work([Loops, Tickers, Ms]) ->
    {ok, Server} = gen_server:start(magnetar_peer, 0, []),
    Me = self(),
    Start = erlang:monotonic_time(microsecond),
    End = Start + Ms * 1000,
    [spawn(fun() -> Me ! {ticks, tick(End, 0)} end) || _ <- lists:seq(1, Tickers)],
    spawn(fun() -> Me ! {calls, calls(Server, Start, End, [])} end),
    Computing = [spawn(fun() -> compute(1) end) || _ <- lists:seq(1, Loops)],
    timer:sleep(Ms),
    [exit(Pid, kill) || Pid <- Computing],
    Ticks = lists:sum([receive {ticks, N} -> N end || _ <- lists:seq(1, Tickers)]),
    Calls = receive {calls, All} -> All end,
    gen_server:stop(Server),
    [Ticks | Calls].

compute(X) -> compute((X * 1103 + 12345) band 16#7fffffff).

%% The ticks before the end.
tick(End, N) ->
    timer:sleep(10),
    case erlang:monotonic_time(microsecond) < End of
        true -> tick(End, N + 1);
        false -> N
    end.

calls(Server, Start, End, Found) ->
    Before = erlang:monotonic_time(microsecond),
    case Before < End of
        true ->
            gen_server:call(Server, 1),
            Took = erlang:monotonic_time(microsecond) - Before,
            timer:sleep(1),
            calls(Server, Start, End, [Took, Before - Start | Found]);
        false ->
            lists:reverse(Found)
    end.
