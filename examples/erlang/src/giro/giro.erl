%% The bank in Erlang: its ledger, and couriers that run at the other bank.
-module(giro).
-behaviour(supervisor).
-export([main/1, start_courier/1, init/1]).

-define(COURIERS, 4).

%% Opens the bank beside the node Bank, and ends with the standard input. `erl -s` waits for this function.
main([Bank, Mode]) ->
    spawn(fun() ->
              {ok, _} = supervisor:start_link(?MODULE, {bank, Bank, Mode}),
              io:format("open~n"),
              wait_for_end()
          end).

wait_for_end() ->
    case io:get_line("") of
        eof -> halt(0);
        _ -> wait_for_end()
    end.

init({bank, Bank, Mode}) ->
    Ledger = #{id => ledger, start => {giro_ledger, start_link, [Mode]}},
    Couriers = #{id => couriers, type => supervisor,
                 start => {supervisor, start_link, [{local, giro_couriers}, ?MODULE, {couriers, Bank}]}},
    {ok, {flags(), [Ledger, Couriers]}};
init({couriers, Bank}) ->
    {ok, {flags(), [#{id => {courier, N}, start => {?MODULE, start_courier, [Bank]}}
                    || N <- lists:seq(1, ?COURIERS)]}}.

%% Couriers are killed often, so restarts are hardly limited.
flags() ->
    #{strategy => one_for_one, intensity => 100000, period => 1}.

%% A courier whose function is a var of the other bank, 'giro.courier/run'.
start_courier(Bank) ->
    {ok, spawn_link(Bank, 'giro.courier', run, [node()])}.
