%% A courier of the bank in Clojure, which starts and supervises it. It carries transfers of that bank to the
%% ledger of this node.
-module(giro_courier).
-export([run/1]).

run(Bank) ->
    {giro_tally, Bank} ! {started, node()},
    carry({giro_ledger, Bank}).

carry(From) ->
    case gen_server:call(From, next) of
        none ->
            timer:sleep(5);
        {transfer, Id, To, Amount} ->
            ok = gen_server:call(giro_ledger, {deposit, Id, To, Amount}),
            ok = gen_server:call(From, {done, Id})
    end,
    carry(From).
