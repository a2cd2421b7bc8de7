%% Callbacks of the behaviours that the tests of magnetar-erlang meet: a machine, a handler of events, and a supervisor.
-module(erlang_behaviours).
-export([init/1, callback_mode/0, handle_event/4, handle_event/2, handle_call/2, terminate/2, start_worker/1, worker/1]).

init({machine, Tell}) -> {ok, off, {Tell, 0}};
init({tally, Tell}) -> {ok, {Tell, 0}};
init({{tally, Tell}, {_, _}}) -> {ok, {Tell, 0}}; % after a swap
init({supervisor, Flags, Children}) -> {ok, {Flags, Children}}.

%% A machine that is switched on and off, and counts.
callback_mode() -> handle_event_function.

handle_event(cast, push, off, {Tell, N}) -> Tell ! {on, N + 1}, {next_state, on, {Tell, N + 1}};
handle_event(cast, push, on, {Tell, N}) -> Tell ! {off, N}, {next_state, off, {Tell, N}};
handle_event({call, From}, count, State, {_, N}) -> {keep_state_and_data, [{reply, From, {State, N}}]};
handle_event({call, From}, stop, _, _) -> {stop_and_reply, {shutdown, told}, [{reply, From, bye}]}.

%% A handler that counts the events, and tells what it gets.
handle_event(crash, {_, _}) -> exit(crashed);
handle_event(Event, {Tell, N}) -> Tell ! {event, Event}, {ok, {Tell, N + 1}}.

handle_call(count, {Tell, N}) -> {ok, N, {Tell, N}}.

terminate(Why, {_, N}) -> {Why, N};
terminate(_, _) -> ok.

%% A child of a supervisor.
start_worker(Tell) -> proc_lib:start_link(?MODULE, worker, [Tell]).

worker(Tell) ->
    proc_lib:init_ack({ok, self()}),
    Tell ! {started, self()},
    receive stop -> ok end.
