%% Runs programs of operations on ets tables, and prints what each operation gives, as data that Clojure reads.
%% A program is {Kind, [Operation]}; the file of programs is a list of them, one term.
-module(tables).
-export([main/1]).

main(File) ->
    {ok, [Programs]} = file:consult(File),
    [io:format("~ts~n", [edn(run(P))]) || P <- Programs],
    halt(0).

run({Kind, Operations}) ->
    Tab = ets:new(t, [Kind, public]),
    Results = [result(Kind, Tab, O) || O <- Operations],
    ets:delete(Tab),
    Results.

result(Kind, Tab, Operation) ->
    try canonical(Kind, Operation, do(Tab, Operation)) catch error:badarg -> refused end.

%% Tables without an order give what they find in any order.
canonical(ordered_set, _, Result) -> Result;
canonical(_, {Name, _}, Result) when Name =:= all; Name =:= select; Name =:= pages -> lists:sort(Result);
canonical(_, {all}, Result) -> lists:sort(Result);
canonical(_, _, Result) -> Result.

do(T, {insert, Row}) -> ets:insert(T, Row);
do(T, {insert_all, Rows}) -> ets:insert(T, Rows);
do(T, {insert_new, Row}) -> ets:insert_new(T, Row);
do(T, {insert_all_new, Rows}) -> ets:insert_new(T, Rows);
do(T, {lookup, Key}) -> ets:lookup(T, Key);
do(T, {lookup_element, Key, Place}) -> ets:lookup_element(T, Key, Place + 1);
do(T, {member, Key}) -> ets:member(T, Key);
do(T, {delete, Key}) -> ets:delete(T, Key);
do(T, {delete_object, Row}) -> ets:delete_object(T, Row);
do(T, {delete_all}) -> ets:delete_all_objects(T);
do(T, {take, Key}) -> ets:take(T, Key);
do(T, {update_element, Key, Place, Value}) -> ets:update_element(T, Key, {Place + 1, Value});
do(T, {update_counter, Key, Changes}) -> ets:update_counter(T, Key, [change(C) || C <- Changes]);
do(T, {update_counter, Key, Changes, Default}) -> ets:update_counter(T, Key, [change(C) || C <- Changes], Default);
do(T, {swap, Before, After}) -> ets:select_replace(T, [{Before, [], [{const, After}]}]) =:= 1;
do(T, {all}) -> ets:tab2list(T);
do(T, {fold}) -> ets:foldl(fun(Row, N) -> N + size(Row) end, 0, T);
do(T, {size}) -> ets:info(T, size);
do(T, {select, Query}) -> ets:select(T, spec(Query));
do(T, {pages, Query}) -> pages(ets:select(T, spec(Query), 2));
do(T, {select_count, Query}) -> ets:select_count(T, spec(Query));
do(T, {select_delete, Query}) -> ets:select_delete(T, spec(Query));
do(T, {first}) -> key(ets:first(T));
do(T, {last}) -> key(ets:last(T));
do(T, {next, Key}) -> key(ets:next(T, Key));
do(T, {prev, Key}) -> key(ets:prev(T, Key)).

change({Place, N}) -> {Place + 1, N};
change({Place, N, Threshold, Value}) -> {Place + 1, N, Threshold, Value}.

key('$end_of_table') -> none;
key(Key) -> {key, Key}.

pages('$end_of_table') -> [];
pages({Found, More}) -> Found ++ pages(ets:select(More)).

spec(pairs) -> [{{'$1', '$2'}, [], [{{'$2', '$1'}}]}];
spec(small) -> [{{'$1', '$2'}, [{is_integer, '$2'}, {'<', '$2', 3}], ['$1']}];
spec(of_a) -> [{{a, '$1'}, [], ['$1']}];
spec(of_one) -> [{{1, '$1'}, [], ['$1']}];
spec(nested) -> [{{{a, '$1'}, '_'}, [], ['$1']}];
spec(twice) -> [{{'$1', '$1'}, [], ['$1']}];
spec(long) -> [{{'_', '_', '_'}, [], ['$_']}];
spec(either) -> [{{a, '_'}, [], [true]}, {{'_', 1}, [], [true]}];
spec(ones) -> [{{'_', 1}, [], [true]}];
spec(none) -> [{{'_', nothing}, [], [true]}].

edn(A) when is_boolean(A) -> atom_to_list(A);
edn(A) when is_atom(A) -> [$:, atom_to_list(A)];
edn(N) when is_number(N) -> io_lib:format("~p", [N]);
edn(<<>>) -> "\"\"";
edn(B) when is_binary(B) -> io_lib:format("~p", [binary_to_list(B)]);
edn(T) when is_tuple(T) -> edn(tuple_to_list(T));
edn(M) when is_map(M) -> ["{", [[edn(K), " ", edn(V), " "] || {K, V} <- maps:to_list(M)], "}"];
edn([]) -> "[]";
edn(L) when is_list(L) -> [$[, lists:join(" ", [edn(E) || E <- L]), $]].
