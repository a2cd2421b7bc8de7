%% The workloads of Savina, skynet and supervision in Erlang: see bench/README.md. Each checks its result, and answers with nanoseconds.
-module(magnetar_savina).
-behaviour(gen_server).
-export([work/2, init/1, handle_call/3, handle_cast/2]).

work("threadring", [N, Hops]) ->
    Me = self(),
    magnetar_peer:timed(fun() ->
        Nodes = [spawn_link(fun() -> ring_node(I, Me) end) || I <- lists:seq(0, N - 1)],
        [Node ! {next, Next} || {Node, Next} <- lists:zip(Nodes, tl(Nodes) ++ [hd(Nodes)])],
        hd(Nodes) ! Hops,
        Last = Hops rem N,
        receive {last, I} -> Last = I end,
        [Node ! stop || Node <- Nodes]
    end);
work("big", [Workers, N]) ->
    Me = self(),
    magnetar_peer:timed(fun() ->
        Pids = [spawn_link(fun() -> big_worker(I, N, Me) end) || I <- lists:seq(1, Workers)],
        All = list_to_tuple(Pids),
        [Pid ! {all, All} || Pid <- Pids],
        [receive done -> ok end || _ <- Pids],
        [Pid ! stop || Pid <- Pids],
        Pings = Workers * N,
        Pings = lists:sum([receive {answered, K} -> K end || _ <- Pids])
    end);
work("skynet", [Leaves]) ->
    Me = self(),
    magnetar_peer:timed(fun() ->
        spawn(fun() -> skynet(Me, 0, Leaves) end),
        Sum = Leaves * (Leaves - 1) div 2,
        receive S -> Sum = S end
    end);
work("uct", [Most]) ->
    magnetar_peer:timed(fun() ->
        Children = uct_children(self(), self(), 1),
        Most = grow(0, 10, Most, 1),
        [Child ! traverse || Child <- Children],
        computed(Most),
        [Child ! stop || Child <- Children],
        Most = sizes(Children)
    end);
work("superv", [Servers, Crashes]) ->
    magnetar_peer:timed(fun() -> supervise(Servers, Crashes) end);
work("superv-reports", [Servers, Crashes]) ->
    File = filename:join(os:getenv("TMPDIR", "/tmp"), "magnetar-superv-" ++ os:getpid() ++ ".log"),
    log_to(File),
    Took = magnetar_peer:timed(fun() ->
        supervise(Servers, Crashes),
        ok = logger_std_h:filesync(superv) % what the handler has not written yet
    end),
    ok = logger:remove_handler(superv),
    logger:set_primary_config(level, none),
    {ok, Text} = file:read_file(File),
    ok = file:delete(File),
    Reports = Servers * Crashes,
    Reports = length(binary:matches(Text, <<"Generic server">>)),
    Took.

%% threadring

ring_node(I, Boss) -> receive {next, Next} -> pass(I, Next, Boss) end.

pass(I, Next, Boss) ->
    receive
        0 -> Boss ! {last, I}, pass(I, Next, Boss);
        stop -> ok;
        Left -> Next ! Left - 1, pass(I, Next, Boss)
    end.

%% big

big_worker(I, N, Boss) ->
    receive
        {all, All} ->
            ping(I, All),
            big_loop(I, All, N, 0, Boss)
    end.

ping(I, All) ->
    Other = rand:uniform(tuple_size(All) - 1),
    element(if Other >= I -> Other + 1; true -> Other end, All) ! {ping, self()}.

big_loop(I, All, Left, Answered, Boss) ->
    receive
        {ping, From} ->
            From ! pong,
            big_loop(I, All, Left, Answered + 1, Boss);
        pong when Left =:= 1 ->
            Boss ! done,
            big_loop(I, All, 0, Answered, Boss);
        pong ->
            ping(I, All),
            big_loop(I, All, Left - 1, Answered, Boss);
        stop ->
            Boss ! {answered, Answered}
    end.

%% skynet

skynet(Parent, Number, 1) ->
    Parent ! Number;
skynet(Parent, Number, Size) ->
    Me = self(),
    Part = Size div 10,
    [spawn(fun() -> skynet(Me, Number + I * Part, Part) end) || I <- lists:seq(0, 9)],
    Parent ! skynet_sum(10, 0).

skynet_sum(0, Sum) -> Sum;
skynet_sum(N, Sum) -> receive S -> skynet_sum(N - 1, Sum + S) end.

%% uct

grow(Nodes, Nodes, _, _) ->
    Nodes;
grow(Asked, Nodes, Most, Random) ->
    Next = next_random(Random),
    receive
        {may_i, Node} when Next band 16#10000 =/= 0, Nodes + 10 =< Most ->
            Node ! {yes, (Next bsr 8) rem 100},
            grow(Asked + 1, Nodes + 10, Most, Next);
        {may_i, Node} ->
            Node ! no,
            grow(Asked + 1, Nodes, Most, Next)
    end.

next_random(X) -> (X * 1103515245 + 12345) band 16#7fffffff.

uct_children(Root, Parent, Work) ->
    [spawn(fun() -> uct_node(Root, Parent, Work) end) || _ <- lists:seq(1, 10)].

uct_node(Root, Parent, Work) ->
    Root ! {may_i, self()},
    Children = receive
        {yes, ForChildren} -> uct_children(Root, self(), ForChildren);
        no -> []
    end,
    receive traverse -> Root ! {computed, compute(Work, Work)} end,
    [Child ! traverse || Child <- Children],
    receive stop -> ok end,
    [Child ! stop || Child <- Children],
    Parent ! {size, 1 + sizes(Children)}.

compute(0, X) -> X;
compute(N, X) -> compute(N - 1, next_random(X)).

computed(0) -> ok;
computed(N) -> receive {computed, _} -> computed(N - 1) end.

sizes(Children) -> lists:sum([receive {size, N} -> N end || _ <- Children]).

%% superv

supervise(Servers, Crashes) ->
    {ok, Supervisor} = supervisor:start_link(?MODULE, {supervisor, Servers, Crashes, self()}),
    crash(Servers * (Crashes + 1), maps:from_keys(lists:seq(1, Servers), Crashes)),
    Servers = proplists:get_value(active, supervisor:count_children(Supervisor)),
    gen_server:stop(Supervisor).

%% The reports of the default level go to the file, and to nothing else. The handler's limits are off: it would drop most reports.
log_to(File) ->
    logger:remove_handler(default),
    ok = logger:add_handler(superv, logger_std_h, #{
        config => #{file => File, burst_limit_enable => false, drop_mode_qlen => 1000000, flush_qlen => 1000000},
        formatter => {logger_formatter, #{}}}),
    logger:set_primary_config(level, notice).

init({supervisor, Servers, Crashes, Boss}) ->
    {ok, {#{strategy => one_for_one, intensity => Servers * Crashes, period => 1},
          [#{id => I, start => {gen_server, start_link, [?MODULE, {server, I, Boss}, []]}} || I <- lists:seq(1, Servers)]}};
init({server, I, Boss}) ->
    Boss ! {up, I, self()},
    {ok, I}.

handle_call(_, _, I) -> {reply, I, I}.

handle_cast(crash, _) -> error(crash).

crash(0, _) ->
    ok;
crash(Ups, Left) ->
    receive
        {up, I, Pid} ->
            case Left of
                #{I := 0} -> crash(Ups - 1, Left);
                #{I := N} -> gen_server:cast(Pid, crash), crash(Ups - 1, Left#{I := N - 1})
            end
    end.
