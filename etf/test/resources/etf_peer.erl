%% The Erlang side of magnetar.etf-erlang-test. Files hold terms in external format, each after its length in four bytes.
-module(etf_peer).
-export([echo/2, make/3, compare/2]).

%% Reads the terms of a file, and writes what term_to_binary gives for them to another one, in several forms.
echo(From, To) ->
    write(To, [encoded(binary_to_term(B), N) || {B, N} <- numbered(read(From))]).

%% Writes N terms made from the seed.
make(To, Seed, N) ->
    rand:seed(exsss, Seed),
    write(To, [encoded(term(6), K) || K <- lists:seq(1, N)]).

%% Compares the terms of two files, and prints how many are the same, and the first one that is not.
compare(File, Other) ->
    Pairs = lists:zip(read(File), read(Other)),
    Bad = [{A, B} || {A, B} <- Pairs, binary_to_term(A) =/= binary_to_term(B)],
    io:format("~w of ~w~n", [length(Pairs) - length(Bad), length(Pairs)]),
    case Bad of
        [] -> ok;
        [{A, B} | _] -> io:format("~w~nis ~w~nnot ~w~n", [A, binary_to_term(B), binary_to_term(A)])
    end.

encoded(T, N) when N rem 7 == 0 -> term_to_binary(T, [compressed]);
encoded(T, N) when N rem 3 == 0 -> term_to_binary(T, [{minor_version, 2}]);
encoded(T, N) when N rem 11 == 0 -> term_to_binary(T, [{minor_version, 0}]);
encoded(T, _) -> term_to_binary(T).

numbered(L) -> lists:zip(L, lists:seq(1, length(L))).

read(File) ->
    {ok, B} = file:read_file(File),
    [T || <<N:32, T:N/binary>> <= B].

write(File, L) ->
    ok = file:write_file(File, [[<<(byte_size(B)):32>>, B] || B <- L]).

one_of(L) -> lists:nth(rand:uniform(length(L)), L).

some(F) -> [F() || _ <- lists:seq(1, rand:uniform(5) - 1)].

term(0) -> leaf();
term(D) ->
    T = fun() -> term(D - 1) end,
    case rand:uniform(12) of
        1 -> list_to_tuple(some(T));
        2 -> some(T);
        3 -> maps:from_list(some(fun() -> {key(), T()} end));
        4 -> [T() | improper(leaf())];
        5 -> X = T(), Y = T(), fun(Z) -> {X, Y, Z} end;
        6 -> list_to_tuple([{leaf()} || _ <- lists:seq(1, one_of([1, 32, 33, 300]))]);
        _ -> leaf()
    end.

improper([]) -> tail;
improper(X) when is_list(X) -> tail;
improper(X) -> X.

key() -> one_of([a, 'b/c', <<"key">>, 17, 1 bsl 70, -3, <<1:3>>, undefined, nil, self()]).

leaf() ->
    case rand:uniform(16) of
        1 -> one_of([ok, undefined, nil, true, false, '', 'a b', 'a/b/c', '/', list_to_atom([228, 8364]), list_to_atom(lists:duplicate(255, 8364))]);
        2 -> rand:uniform(256) - 1;
        3 -> rand:uniform(1 bsl 32) - (1 bsl 31);
        4 -> (rand:uniform(1 bsl 64) - (1 bsl 63));
        5 -> (rand:uniform(1 bsl 100) - (1 bsl 99)) bsl one_of([0, 10, 1000, 3000]);
        6 -> rand:uniform() * one_of([1.0, -1.0e200, 1.0e-300]);
        7 -> one_of([0.0, -0.0, 1.0, 1 bsl 63, -(1 bsl 63), (1 bsl 63) - 1]);
        8 -> rand:bytes(rand:uniform(20) - 1);
        9 -> unicode:characters_to_binary([228, 8364, 119070, 97]);
        10 -> N = rand:uniform(30), <<X:N/bitstring, _/bitstring>> = rand:bytes(4), X;
        11 -> [rand:uniform(256) - 1 || _ <- lists:seq(1, rand:uniform(10) - 1)];
        12 -> self();
        13 -> make_ref();
        14 -> one_of([fun lists:map/2, fun erlang:self/0]);
        15 -> hd(erlang:ports());
        16 -> one_of([[], {}, #{}, <<>>])
    end.
