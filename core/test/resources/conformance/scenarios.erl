%% What the Erlang side of the scenarios is made of. Their functions are added behind it, and all run in one node.
-module(scenarios).
-compile([export_all, nowarn_export_all, nowarn_unused_vars, nowarn_unused_function]).

%% ---- running

main(Names) ->
    process_flag(trap_exit, true),
    [io:format("~ts~n", [edn([atom_to_binary(Name), observe(Name)])]) || Name <- Names],
    halt(0).

observe(Name) ->
    {P, R} = spawn_monitor(fun() -> exit({observed, ?MODULE:Name()}) end),
    receive
        {'DOWN', R, process, P, {observed, Term}} -> Term;
        {'DOWN', R, process, P, Why} -> {died, Why}
    after 30000 -> exit(P, kill), late
    end.

%% A term as data that Clojure reads: atoms are keywords, tuples and lists are vectors.
edn(undefined) -> "nil";
edn(B) when is_boolean(B) -> atom_to_list(B);
edn(A) when is_atom(A) -> [$:, string:replace(atom_to_list(A), "_", "-", all)];
edn(N) when is_number(N) -> io_lib:format("~p", [N]);
edn(B) when is_binary(B) -> io_lib:format("~p", [binary_to_list(B)]);
edn(T) when is_tuple(T) -> edn(tuple_to_list(T));
edn(L) when is_list(L) -> [$[, lists:join(" ", [edn(E) || E <- L]), $]];
edn(Other) -> io_lib:format("~p", [lists:flatten(io_lib:format("~p", [Other]))]).

%% ---- what scenarios share

reason_of(F) ->
    {P, R} = spawn_monitor(F),
    receive {'DOWN', R, process, P, Why} -> Why end.

idle() ->
    spawn(fun() -> receive '$never' -> ok end end).

dead() ->
    {P, R} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', R, process, P, _} -> P end.

trapper(To) ->
    P = spawn(fun() -> process_flag(trap_exit, true), To ! '$trapping', trap(To) end),
    receive '$trapping' -> P end.

trap(To) ->
    receive
        {'EXIT', _, Why} -> To ! {trapped, Why};
        Message -> To ! {got, Message}
    end,
    trap(To).

%% Loads version N of a module with a process and a fun in it.
version(N) ->
    S = integer_to_list(N),
    Source = ["-module(hot).", "-export([serve/0, make/0]).",
              "serve() -> receive {ask, F} -> F ! {s, " ++ S ++ "}, serve(); move -> hot:serve() end.",
              "make() -> fun() -> " ++ S ++ " end."],
    Form = fun(Text) -> {ok, Tokens, _} = erl_scan:string(Text), {ok, F} = erl_parse:parse_form(Tokens), F end,
    {ok, hot, Binary} = compile:forms([Form(Text) || Text <- Source]),
    code:purge(hot),
    {module, hot} = code:load_binary(hot, "hot", Binary).

asked(P) ->
    P ! {ask, self()},
    receive Answer -> Answer after 20000 -> late end.

fired() ->
    P = idle(),
    R = monitor(process, P),
    exit(P, boom),
    wait_for(fun() -> process_info(self(), message_queue_len) =:= {message_queue_len, 1} end),
    R.

flush() ->
    receive M -> [M | flush()] after 0 -> [] end.

wait_for(F) ->
    case F() of
        true -> true;
        false -> erlang:yield(), wait_for(F)
    end.

failure(F) ->
    try {ok, F()} catch Class:Reason -> {Class, Reason} end.

%% ---- servers that do what they are told

handle_call(F, {_, _} = S) when is_function(F) -> F(S);
handle_call(Q, {_, Id} = S) -> {ok, {Id, Q}, S}.

handle_call(get, _, S) -> {reply, S, S};
handle_call(F, From, S) -> F(From, S).

handle_cast(F, S) -> F(S).

handle_info({'EXIT', _, _}, {To, _} = S) when is_pid(To) -> {ok, S};
handle_info(M, {To, Id} = S) when is_pid(To) -> To ! {info, Id, M}, {ok, S};
handle_info(F, S) when is_function(F) -> F(S);
handle_info(M, S) -> tell({info, M}), {noreply, S}.

handle_continue(X, S) -> tell({continue, X}), {noreply, S}.

terminate(Why, {To, Id}) when is_pid(To) ->
    To ! {term, Id, case Why of {error, _} -> error; _ -> Why end},
    {terminated, Id};
terminate(Why, _) ->
    case get(kid) of
        undefined -> tell({terminate, Why});
        Id -> tell({stopping, Id, Why})
    end.

code_change(Old, S, Extra) -> {ok, {changed, Old, S, Extra}}.

tell(M) ->
    case get(to) of
        undefined -> ok;
        To -> To ! M
    end.

server(S) ->
    Me = self(),
    {ok, P} = gen_server:start_link(?MODULE, fun() -> put(to, Me), {ok, S} end, []),
    P.

lone(S) ->
    Me = self(),
    {ok, P} = gen_server:start(?MODULE, fun() -> put(to, Me), {ok, S} end, []),
    P.

tells() ->
    receive M -> M after 20000 -> late end.

%% ---- state machines that do what they are told

callback_mode() -> get(mode).

handle_event(enter, Old, S, _) -> tell({enter, Old, S}), (get(on_enter))(S);
handle_event(T, F, S, D) when is_function(F) -> F(T, S, D);
handle_event({call, F}, get, S, D) -> {keep_state_and_data, {reply, F, {S, D}}};
handle_event({call, F}, which, _, _) -> {keep_state_and_data, {reply, F, handle_event}};
handle_event(T, C, _, _) -> tell({T, C}), keep_state_and_data.

off(cast, push, N) -> {next_state, on, N + 1};
off({call, F}, get, N) -> {keep_state_and_data, [{reply, F, {off, N}}]};
off({call, F}, which, _) -> {keep_state_and_data, [{reply, F, state_function}]};
off({call, F}, pop, _) -> put(mode, handle_event_function), {keep_state_and_data, [pop_callback_module, {reply, F, popped}]}.

on({call, F}, get, N) -> {keep_state_and_data, [{reply, F, {on, N}}]}.

terminate(Why, S, _) -> tell({terminate, Why, S}).

begin_machine(Start, S, Mode, OnEnter) ->
    Me = self(),
    {ok, P} = gen_statem:Start(?MODULE, fun() -> put(to, Me), put(mode, Mode), put(on_enter, OnEnter), {ok, S, data} end, []),
    P.

machine(S) -> machine(S, handle_event_function).
machine(S, Mode) -> machine(S, Mode, fun(_) -> keep_state_and_data end).
machine(S, Mode, OnEnter) -> begin_machine(start_link, S, Mode, OnEnter).

lone_machine(S) -> lone_machine(S, handle_event_function, undefined).
lone_machine(S, Mode, OnEnter) -> begin_machine(start, S, Mode, OnEnter).

become_machine(S, D) ->
    put(mode, handle_event_function),
    proc_lib:init_ack({ok, self()}),
    gen_statem:enter_loop(?MODULE, [], S, D).

cast_all(P, Contents) ->
    sys:suspend(P),
    [gen_statem:cast(P, C) || C <- Contents],
    sys:resume(P).

act(Actions) -> fun(_, _, _) -> {keep_state_and_data, Actions} end.

go(S) -> go(S, []).
go(S, Actions) -> fun(_, _, D) -> {next_state, S, D, Actions} end.

waiting_for(Wanted, Word) ->
    fun(_, S, _) -> tell({S, Word}), {keep_state_and_data, case S of Wanted -> []; _ -> postpone end} end.

telling(Word, Next) -> fun(_, S, D) -> tell({S, Word}), {next_state, Next, D} end.

told(N) -> [tells() || _ <- lists:seq(1, N)].

told_until_end() ->
    case tells() of
        {_, 'end'} -> [];
        M -> [M | told_until_end()]
    end.

%% ---- handlers of events; their state is {whom to tell, Id}

init({F, Left}) when is_function(F) -> F(Left);
init({_, _} = S) -> {ok, S};
init(F) -> F().

handle_event(F, S) when is_function(F) -> F(S);
handle_event(E, {To, Id} = S) -> To ! {event, Id, E}, {ok, S}.

manager(Ids) ->
    {ok, P} = gen_event:start(),
    [gen_event:add_handler(P, {?MODULE, Id}, {self(), Id}) || Id <- Ids],
    P.

supervised(Id) ->
    P = manager([]),
    gen_event:add_sup_handler(P, {?MODULE, Id}, {self(), Id}),
    P.

which(P) -> [Id || {_, Id} <- gen_event:which_handlers(P)].

for_id(Wanted, F) -> fun({_, Id} = S) when Id =:= Wanted -> F(S); (S) -> {ok, S} end.

taking_over() ->
    Me = self(),
    fun(Left) -> Me ! {swapped, z, Left}, {ok, {Me, z}} end.

%% ---- children and supervisors

kid_start(To, Id) ->
    gen_server:start_link(?MODULE, fun() -> process_flag(trap_exit, true), put(kid, Id), put(to, To), told_to(To, {started, Id}), {ok, st} end, []).

told_to(nobody, _) -> erase(to);
told_to(To, M) -> To ! M.

kid(Id) -> {?MODULE, kid_start, [nobody, Id]}.

quiet(Id) -> #{id => Id, start => kid(Id)}.

child(Id) -> #{id => Id, start => {?MODULE, kid_start, [self(), Id]}}.

sup_start(F) ->
    process_flag(trap_exit, true),
    supervisor:start_link(?MODULE, F).

sup(Flags, Children) ->
    {ok, P} = sup_start(fun() -> {ok, {Flags, Children}} end),
    flush(),
    P.

view(S) -> lists:reverse([{Id, if is_pid(P) -> up; true -> P end} || {Id, P, _, _} <- supervisor:which_children(S)]).

pid_of(S, Id) -> {Id, P, _, _} = lists:keyfind(Id, 1, supervisor:which_children(S)), P.

settle(S, P) ->
    Pids = try [X || {_, X, _, _} <- supervisor:which_children(S)] catch exit:_ -> [] end,
    case lists:member(P, Pids) of
        true -> settle(S, P);
        false -> ok
    end.

reason_of_end(P, F) ->
    R = monitor(process, P),
    F(),
    receive {'DOWN', R, process, _, Why} -> Why after 20000 -> late end.

end_pid(S, P) ->
    reason_of_end(P, fun() -> exit(P, kill) end),
    settle(S, P).

crash(S, Id) -> end_pid(S, pid_of(S, Id)).

stop(S, Id, Why) ->
    P = pid_of(S, Id),
    reason_of_end(P, fun() -> gen_server:cast(P, fun(X) -> erase(to), {stop, Why, X} end) end),
    settle(S, P).

state_of(S) ->
    case is_process_alive(S) of
        true -> up;
        false -> receive {'EXIT', S, Why} -> Why after 20000 -> late end
    end.

told() -> [M || M <- flush(), lists:member(element(1, M), [started, stopping])].

told_after_crash(S, Id) -> flush(), crash(S, Id), told().

after_ends(Restart, Reasons) ->
    S = sup(#{intensity => 10}, [(quiet(a))#{restart => Restart}]),
    [begin stop(S, a, Why), view(S) end || Why <- Reasons].

reason_of_child(Child) ->
    S = sup(#{}, [Child]),
    Why = reason_of_end(pid_of(S, maps:get(id, Child)), fun() -> exit(S, shutdown) end),
    {Why, told()}.

%% ---- applications

start(_, F) -> F().

stop(_) -> ok.

idle_tree() -> {ok, spawn_link(fun() -> receive '$never' -> ok end end)}.

app(Name, Keys) ->
    ok = application:load({application, Name, [{description, ""}, {vsn, "1"}, {modules, []}, {registered, []} | Keys]}).

%% What becomes of a node of its own when a permanent application ends.
node_of_permanent() ->
    Out = os:cmd("erl -noshell -kernel logger_level none -eval 'case compile:file(\"scenarios\", [binary]) of "
                 "{ok, M, B} -> code:load_binary(M, \"scenarios\", B), scenarios:end_of_permanent() end.'"),
    case string:find(Out, "node is up") of
        nomatch -> case string:find(Out, "started") of nomatch -> Out; _ -> node_down end;
        _ -> node_up
    end.

end_of_permanent() ->
    Root = fun() -> {ok, spawn_link(fun() -> receive go -> exit(boom) end end)} end,
    Me = self(),
    app(a12, [{mod, {?MODULE, fun() -> {ok, P} = Root(), Me ! {root, P}, {ok, P} end}}]),
    ok = application:start(a12, permanent),
    io:format("started~n"),
    receive {root, P} -> P ! go end,
    receive after 10000 -> io:format("node is up~n"), halt(0) end.

%% ---- scenarios
