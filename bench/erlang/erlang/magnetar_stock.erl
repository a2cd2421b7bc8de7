%% The nodes of the suite `erlang`, see bench/README.md: one that serves, or one that reads lines `workload number ..` and answers each with a number.
-module(magnetar_stock).
-export([main/0, main/1, init/1, handle_call/3, handle_cast/2]).

-define(PATIENCE, 60000).

%% ---- what serves

init(State) -> {ok, State}.
handle_call({whereis, Name}, _, State) -> {reply, whereis(Name), State};
handle_call({term, K}, _, State) -> {reply, term_to_binary(lists:nth(K, terms())), State};
handle_call(What, _, State) -> {reply, What, State}.
handle_cast(_, State) -> {noreply, State}.

main() ->
    logger:set_primary_config(level, none),
    register(sink, spawn(fun sink/0)),
    register(source, spawn(fun source/0)),
    {ok, _} = gen_server:start({local, server}, ?MODULE, 0, []),
    io:format("ready~n"),
    until_eof(io:get_line("")).

until_eof(eof) -> halt();
until_eof(_) -> until_eof(io:get_line("")).

sink() ->
    receive {count, From, N} -> take(N), From ! done end,
    sink().

source() ->
    receive {send, To, N} -> Message = payload(), times(N, fun() -> To ! Message end) end,
    source().

%% The order of the terms is the one of `magnetar.bench.erlang-nodes/terms`.
terms() ->
    [{ok, 42, <<"tea">>},
     #{id => 1042, name => <<"Emma">>, city => <<"Delft">>, price => 4.5, stock => 120, sold => true, kind => tea, rank => 3, weight => 250, color => green},
     lists:seq(1001, 2000),
     << <<(7 * N rem 256)>> || N <- lists:seq(1, 1024) >>,
     binary:copy(<<"Tea, cake, lamp.">>, 64),
     #{id => 1042, paid => true, notes => [],
       customer => #{name => <<"Emma">>, city => <<"Delft">>, since => {2026, 5, 1}},
       lines => [{<<"tea">>, 2, 4.5}, {<<"cake">>, 1, 3.25}, {<<"lamp">>, 3, 19.0}]}].

%% ---- what measures

main([Other]) ->
    logger:set_primary_config(level, none),
    Server = {server, list_to_atom(Other)},
    [ServerPid, Sink, Source] = [gen_server:call(Server, {whereis, Name}) || Name <- [server, sink, source]],
    Terms = [gen_server:call(Server, {term, K}) || K <- lists:seq(1, length(terms()))],
    io:format("ready~n"),
    answer_lines({ServerPid, Sink, Source, Terms}, io:get_line("")).

answer_lines(_, eof) -> halt();
answer_lines(Other, Line) ->
    [What | Words] = string:lexemes(Line, " \n"),
    Numbers = [list_to_integer(W) || W <- Words],
    io:format("~b~n", [in_process(fun() -> timed(What, Numbers, Other) end)]),
    answer_lines(Other, io:get_line("")).

timed(What, Numbers, Other) ->
    Start = erlang:monotonic_time(nanosecond),
    work(What, Numbers, Other),
    erlang:monotonic_time(nanosecond) - Start.

work("collect", [], _) ->
    erlang:garbage_collect();
work("call", [N], {Server, _, _, _}) ->
    Request = payload(),
    times(N, fun() -> Request = gen_server:call(Server, Request, ?PATIENCE) end);
work("send", [N], {_, Sink, _, _}) ->
    Sink ! {count, self(), N},
    Message = payload(),
    times(N, fun() -> Sink ! Message end),
    receive done -> ok end;
work("receive", [N], {_, _, Source, _}) ->
    Source ! {send, self(), N},
    take(N);
work("encode", [K, N], {_, _, _, Terms}) ->
    Term = binary_to_term(lists:nth(K, Terms)),
    times(N, fun() -> true = is_binary(term_to_binary(Term)) end);
work("decode", [K, N], {_, _, _, Terms}) ->
    Bytes = lists:nth(K, Terms),
    times(N, fun() -> false = is_pid(binary_to_term(Bytes)) end).

%% Each piece of work has a process of its own, with a fresh heap; one that fails ends the node.
in_process(Work) ->
    {_, Ref} = spawn_monitor(fun() -> exit({answer, Work()}) end),
    receive
        {'DOWN', Ref, process, _, {answer, X}} -> X;
        {'DOWN', Ref, process, _, Why} -> io:format(standard_error, "~p~n", [Why]), halt(1)
    end.

payload() -> binary:copy(<<7>>, 100).

take(0) -> ok;
take(N) -> receive <<_/binary>> -> take(N - 1) end.

times(0, _) -> ok;
times(N, F) -> F(), times(N - 1, F).
