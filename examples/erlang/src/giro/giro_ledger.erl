%% The books of the bank in Erlang. The ledger in Clojure, giro.ledger, answers the same requests and explains
%% them.
-module(giro_ledger).
-behaviour(gen_server).
-export([start_link/1, init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(ACCOUNTS, 10).
-define(BALANCE, 1000).
-define(MOST_OPEN, 100).

start_link(Mode) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Mode, []).

init(Mode) ->
    {ok, #{careless => Mode =:= careless,
           accounts => maps:from_list([{N, ?BALANCE} || N <- lists:seq(1, ?ACCOUNTS)]),
           transfers => #{}, waiting => queue:new(), taken => #{}, seen => #{},
           sent => 0, booked => 0, repeated => 0, surplus => 0}}.

handle_call({pay, Id, From, To, Amount}, _, Ledger) -> answer(pay(Id, From, To, Amount, Ledger));
handle_call(next, {Courier, _}, Ledger) -> answer(next(Courier, Ledger));
handle_call({deposit, Id, To, Amount}, _, Ledger) -> answer({ok, deposit(Id, To, Amount, Ledger)});
handle_call({done, Id}, _, Ledger) -> answer({ok, done(Id, Ledger)});
handle_call(books, _, Ledger) -> {reply, books(Ledger), Ledger}.

handle_cast(_, Ledger) -> {noreply, Ledger}.

%% A courier has ended, or is out of reach: another one takes what it carried.
handle_info({'DOWN', Ref, process, _, _}, #{taken := Taken, waiting := Waiting} = Ledger) ->
    case maps:take(Ref, Taken) of
        {Id, Rest} -> {noreply, Ledger#{taken := Rest, waiting := queue:in(Id, Waiting)}};
        error -> {noreply, Ledger}
    end;
handle_info(_, Ledger) ->
    {noreply, Ledger}.

answer({Answer, Ledger}) -> {reply, Answer, Ledger}.

pay(Id, From, To, Amount, Ledger) ->
    #{accounts := Accounts, transfers := Transfers, waiting := Waiting, seen := Seen, sent := Sent} = Ledger,
    #{From := Balance} = Accounts,
    if
        is_map_key(Id, Seen) -> {ok, Ledger};
        map_size(Transfers) >= ?MOST_OPEN -> {busy, Ledger};
        Balance < Amount -> {refused, Ledger};
        true -> {ok, Ledger#{accounts := Accounts#{From := Balance - Amount},
                             transfers := Transfers#{Id => {To, Amount}},
                             waiting := queue:in(Id, Waiting), seen := Seen#{Id => true}, sent := Sent + 1}}
    end.

next(Courier, #{waiting := Waiting, transfers := Transfers, taken := Taken} = Ledger) ->
    case queue:out(Waiting) of
        {{value, Id}, Rest} when is_map_key(Id, Transfers) ->
            {To, Amount} = map_get(Id, Transfers),
            Ref = monitor(process, Courier),
            {{transfer, Id, To, Amount}, Ledger#{waiting := Rest, taken := Taken#{Ref => Id}}};
        {{value, _}, Rest} -> % it has arrived meanwhile
            next(Courier, Ledger#{waiting := Rest});
        {empty, _} ->
            {none, Ledger}
    end.

deposit(Id, To, Amount, #{seen := Seen, booked := Booked, repeated := Repeated} = Ledger) ->
    case Ledger of
        #{seen := #{Id := _}, careless := false} ->
            Ledger#{repeated := Repeated + 1};
        #{seen := #{Id := _}, surplus := Surplus} ->
            credit(To, Amount, Ledger#{repeated := Repeated + 1, surplus := Surplus + Amount});
        _ ->
            credit(To, Amount, Ledger#{booked := Booked + 1, seen := Seen#{Id => true}})
    end.

credit(To, Amount, #{accounts := Accounts} = Ledger) ->
    Ledger#{accounts := maps:update_with(To, fun(Balance) -> Balance + Amount end, Accounts)}.

done(Id, #{transfers := Transfers, taken := Taken} = Ledger) ->
    [demonitor(Ref, [flush]) || {Ref, Carried} <- maps:to_list(Taken), Carried =:= Id],
    Ledger#{transfers := maps:remove(Id, Transfers),
            taken := maps:filter(fun(_, Carried) -> Carried =/= Id end, Taken)}.

books(#{accounts := Accounts, transfers := Transfers} = Ledger) ->
    Counts = maps:with([sent, booked, repeated, surplus], Ledger),
    Counts#{money => lists:sum(maps:values(Accounts)), open => map_size(Transfers)}.
