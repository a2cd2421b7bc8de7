#!/usr/bin/env escript
%% Writes bits-golden.edn: what real Erlang makes of layouts, bit by bit. From the top of a checkout:
%%
%%     escript core/test/resources/conformance/bits.escript > core/test/resources/conformance/bits-golden.edn
%%
%% Layouts at random (with a fixed seed) and by hand are written as Magnetar's and as Erlang's, compiled, and tried on what they build, and
%% on that cut, lengthened and spoilt. A case is {:layout L :values V :built B :tries [[B V-or-nil] ..]}; a bit string is [bits "hex"].

main(_) ->
    ok = io:setopts([{encoding, unicode}]),
    rand:seed(exsss, {1, 2, 3}),
    Cases = [random_case() || _ <- lists:seq(1, 200)] ++ by_hand(),
    Numbered = lists:zip(lists:seq(1, length(Cases)), Cases),
    Source = ["-module(golden). -compile([export_all, nowarn_export_all]).\n" | [functions(N, C) || {N, C} <- Numbered]],
    load(lists:flatten(Source)),
    io:format(";; Erlang/OTP ~s, by bits.escript~n[~n", [erlang:system_info(otp_release)]),
    [print(N, C) || {N, C} <- Numbered],
    io:format("]~n").

load(Source) ->
    {ok, Tokens, _} = erl_scan:string(Source),
    {ok, golden, Code} = compile:forms([parsed(F) || F <- split(Tokens, [], [])], []),
    {module, golden} = code:load_binary(golden, "golden", Code).

split([], _, Forms) -> lists:reverse(Forms);
split([{dot, _} = Dot | More], Form, Forms) -> split(More, [], [lists:reverse([Dot | Form]) | Forms]);
split([Token | More], Form, Forms) -> split(More, [Token | Form], Forms).

parsed(Tokens) -> {ok, Form} = erl_parse:parse_form(Tokens), Form.

%% A case is a list of {Name, Value, Edn, Erl}: the segment in both languages, behind its name; and what else to try.

functions(N, {Segments, _}) ->
    Names = names(Segments),
    Pattern = string:join([Name ++ Erl || {Name, _, _, Erl} <- Segments], ", "),
    io_lib:format("b~w([~ts]) -> <<~ts>>.~nm~w(<<~ts>>) -> [~ts]; m~w(_) -> nil.~n",
                  [N, Names, Pattern, N, Pattern, Names, N]).

names(Segments) -> string:join(named(Segments), ", ").

named(Segments) -> [Name || {[C | _] = Name, _, _, _} <- Segments, C >= $A, C =< $Z].

print(N, {Segments, More}) ->
    Values = [Value || {[C | _], Value, _, _} <- Segments, C >= $A, C =< $Z],
    Built = golden:(fn("b", N))(Values),
    Tries = [{Try, golden:(fn("m", N))(Try)} || Try <- [Built | spoilt(Built, Segments)] ++ More],
    io:format("{:layout ~ts~n :values ~s~n :built ~s~n :tries [~s]}~n",
              [layout(Segments), edn(Values), edn(Built), string:join([["[", edn(B), " ", edn(V), "]"] || {B, V} <- Tries], "\n         ")]).

fn(Prefix, N) -> list_to_atom(Prefix ++ integer_to_list(N)).

layout(Segments) ->
    ["[", string:join(["[" ++ string:lowercase(Name) ++ Edn ++ "]" || {Name, _, Edn, _} <- Segments], " "), "]"].

edn(nil) -> "nil";
edn(V) when is_list(V) -> ["[", string:join([lists:flatten(edn(E)) || E <- V], " "), "]"];
edn(V) when is_bitstring(V) ->
    Padding = (8 - bit_size(V) rem 8) rem 8,
    io_lib:format("[~w \"~s\"]", [bit_size(V), [io_lib:format("~2.16.0b", [O]) || <<O>> <= <<V/bitstring, 0:Padding>>]]);
edn(V) -> io_lib:format("~w", [V]).

%% What Magnetar reads as NaN or an infinity, Erlang does not: layouts with floats are not spoilt.
spoilt(Built, Segments) ->
    N = bit_size(Built),
    Cut = rand:uniform(N + 1) - 1,
    <<Short:Cut/bitstring, _/bitstring>> = Built,
    [Short, <<Built/bitstring, 5:3>>, <<Built/bitstring, 7>>] ++
        case [F || {_, F, _, _} <- Segments, is_float(F)] of
            [] -> [garbage(N), garbage(N), garbage(N + 8)];
            _ -> []
        end.

garbage(N) -> <<<<(rand:uniform(2) - 1):1>> || _ <- lists:seq(1, N)>>.

%% ---- at random

random_case() -> {segments(rand:uniform(6), 1, []), []}.

segments(0, I, Segments) -> lists:reverse(rest(rand:uniform(4), I) ++ Segments);
segments(N, I, Segments) -> segments(N - 1, I + 1, [segment(rand:uniform(9), name(I), Segments) | Segments]).

name(I) -> [$A + I - 1].

rest(1, I) -> [raw(name(I), "binary", 8 * (rand:uniform(4) - 1), "", "")];
rest(2, I) -> [raw(name(I), "bits", rand:uniform(30) - 1, "", "")];
rest(_, _) -> [].

segment(1, Name, Segments) -> sized(Name, Segments, "binary", 8);
segment(2, Name, Segments) -> sized(Name, Segments, "bits", 1);
segment(3, Name, _) -> float(Name, lists:nth(rand:uniform(3), [16, 32, 64]));
segment(4, Name, _) -> text(Name, lists:nth(rand:uniform(3), ["utf8", "utf16", "utf32"]));
segment(5, Name, _) -> S = rand:uniform(20) - 1, raw(Name, "bits", S, [$  | integer_to_list(S)], ":" ++ integer_to_list(S));
segment(6, Name, _) -> integer(Name, rand:uniform(4));
segment(7, Name, _) -> integer(Name, 8 * rand:uniform(8));
segment(8, Name, _) -> integer(Name, 60 + rand:uniform(80));
segment(9, Name, _) -> integer(Name, rand:uniform(34) - 1).

integer(Name, Size) ->
    Bits = garbage(Size),
    {Value, Sign} = case rand:uniform(2) of
                        1 -> <<V:Size/signed>> = Bits, {V, "signed"};
                        2 -> <<V:Size>> = Bits, {V, "unsigned"}
                    end,
    Order = order(),
    {Name, Value, lists:flatten(io_lib:format(" ~w :~s :~s", [Size, Sign, Order])),
     lists:flatten(io_lib:format(":~w/~s-~s", [Size, Sign, Order]))}.

order() -> lists:nth(rand:uniform(3), ["big", "little", "native"]).

float(Name, Size) ->
    Value = (rand:uniform(4000) - 2000) / 8,
    <<Held:Size/float>> = <<Value:Size/float>>,
    Order = order(),
    {Name, Held, lists:flatten(io_lib:format(" :float ~w :~s", [Size, Order])), lists:flatten(io_lib:format(":~w/float-~s", [Size, Order]))}.

text(Name, Type) ->
    Value = lists:nth(rand:uniform(8), [0, 65, 16#7F, 16#80, 16#7FF, 16#800, 16#FFFF, 16#10FFFF]),
    case Type of
        "utf8" -> {Name, Value, " :utf8", "/utf8"};
        _ -> Order = order(), {Name, Value, " :" ++ Type ++ " :" ++ Order, "/" ++ Type ++ "-" ++ Order}
    end.

raw(Name, Type, Bits, Edn, Erl) -> {Name, garbage(Bits), Edn ++ " :" ++ Type, Erl ++ "/" ++ Type}.

%% The size is an earlier field, plain or in arithmetic.
sized(Name, Segments, Type, Unit) ->
    case [{N, V} || {N, V, _, _} <- Segments, is_integer(V), V >= 0, V < 40] of
        [] -> integer(Name, rand:uniform(4));
        Lengths ->
            {Length, Value} = lists:nth(rand:uniform(length(Lengths)), Lengths),
            {Size, Edn, Erl} = size(rand:uniform(4), Length, Value),
            raw(Name, Type, Unit * Size, Edn, Erl)
    end.

size(1, L, V) -> {V + 1, " (inc " ++ string:lowercase(L) ++ ")", ":(" ++ L ++ "+1)"};
size(2, L, V) when V > 2 -> {V - 2, " (- " ++ string:lowercase(L) ++ " 2)", ":(" ++ L ++ "-2)"};
size(3, L, V) -> {V div 2, " (quot " ++ string:lowercase(L) ++ " 2)", ":(" ++ L ++ " div 2)"};
size(_, L, V) -> {V, " " ++ string:lowercase(L), ":" ++ L}.

%% ---- by hand

by_hand() ->
    [{[{"A", 3, "", ""}, {"A", 3, "", ""}], [<<3, 4>>, <<3>>]},
     {[{"137", 137, "", ""}, {"\"png\"", 0, "", ""}, {"A", 7, " 32", ":32"}], [<<137, "pnf", 0:32>>, <<137, "pn">>]},
     {[{"97", 0, " 16 :little", ":16/little"}, {"-5", 0, " 12 :little :signed", ":12/little-signed"}, {"A", 9, " 4", ":4"}], []},
     {[{"A", 16, "", ""}, {"7", 0, " a", ":A"}, {"1.5", 0, " 32 :float", ":32/float"}], [<<8, 7, 1.5:32/float>>, <<1, 7:1, 1.5:32/float>>]},
     {[{"\"\x{e9}\x{20ac}\"", 0, " :utf8", "/utf8"}, {"\"\x{1f600}\"", 0, " :utf16 :little", "/utf16-little"}], []},
     {[{"A", 3, "", ""}, {"B", <<1, 2, 3>>, " :binary a", ":A/binary"}, {"C", <<1, 2>>, " :binary :unit 16", "/binary-unit:16"}],
      [<<0>>, <<0, 1>>, <<0, 1, 2>>, <<1, 1, 2>>, <<3, 1, 2>>]},
     {[{"A", -2, " 2 :unit 8 :signed", ":2/signed-unit:8"}, {"B", 1.5, " 4 :unit 8 :float", ":4/float-unit:8"}], []},
     {[{"A", -1, " 8 :signed", ":8/signed"}, {"B", <<>>, " :bits (* a 0)", ":(A*0)/bits"}, {"C", <<9>>, " :bits", "/bits"}], [<<1>>, <<>>]},
     {[{"A", 2, "", ""}, {"B", 5, " (quot 16 a)", ":(16 div A)"}], [<<0>>, <<0, 1>>, <<1, 0, 5>>, <<4, 1:4>>, <<255>>]},
     {[{"A", 4, "", ""}, {"B", <<7>>, " :binary (- a 3)", ":(A-3)/binary"}], [<<3>>, <<2>>, <<2, 7>>, <<0>>]},
     {[{"A", 4, "", ""}, {"B", 3, " :float a :unit 8", ":A/float-unit:8"}], [<<8, 3.0/float>>, <<2, 3.0:16/float>>, <<3, 0:24>>, <<1, 0>>]},
     {[{"A", 65, " :utf8", "/utf8"}],
      [<<16#C0, 16#80>>, <<16#E0, 16#80, 16#80>>, <<16#ED, 16#A0, 16#80>>, <<16#F4, 16#90, 16#80, 16#80>>, <<16#F0, 16#9F, 16#98, 16#80>>,
       <<16#80>>, <<16#C3>>, <<16#C3, 16#28>>, <<16#FF>>, <<16#EF, 16#BF, 16#BF>>, <<16#F8, 16#88, 16#80, 16#80, 16#80>>, <<>>]},
     {[{"A", 65, " :utf16 :little", "/utf16-little"}],
      [<<16#D800:16/little>>, <<16#D83D:16/little, 16#DE00:16/little>>, <<16#DC00:16/little>>, <<16#D83D:16/little, 65:16/little>>, <<0>>]},
     {[{"A", 65, " :utf32", "/utf32"}], [<<16#D800:32>>, <<16#110000:32>>, <<16#10FFFF:32>>, <<-1:32>>, <<0:24>>]},
     {[{"A", <<>>, " :binary", "/binary"}], [<<1:1>>, <<1:9>>, <<1, 2, 3>>]}].
