%% The Erlang side of the tests of magnetar-erlang: evaluates the lines of its standard input, and prints each value.
-module(erlang_peer).
-behaviour(gen_server).
-export([main/0, init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

main() ->
    io:format("ready~n"),
    loop(erl_eval:new_bindings()).

loop(Bindings) ->
    case io:get_line("") of
        eof -> erlang:halt(0);
        Line -> loop(evaluate(Line, Bindings))
    end.

evaluate(Line, Bindings) ->
    try
        {ok, Tokens, _} = erl_scan:string(Line),
        {ok, Expressions} = erl_parse:parse_exprs(Tokens),
        {value, Value, Next} = erl_eval:exprs(Expressions, Bindings),
        io:format("= ~0p~n", [Value]),
        Next
    catch
        Class:Reason ->
            io:format("! ~0p~n", [{Class, Reason}]),
            Bindings
    end.

%% A server that counts, tells what it gets, and ends when it is told.
init(Tell) -> {ok, {Tell, 0}}.

handle_call(next, _, {Tell, N}) -> {reply, N, {Tell, N + 1}};
handle_call({echo, X}, _, State) -> {reply, X, State};
handle_call(silence, _, State) -> {noreply, State};
handle_call({stop, Why}, _, State) -> {stop, Why, State};
handle_call(self, _, State) -> {reply, self(), State}.

handle_cast(X, {Tell, N}) -> Tell ! {cast, X}, {noreply, {Tell, N}}.

handle_info(X, {Tell, N}) -> Tell ! {info, X}, {noreply, {Tell, N}}.

terminate(_, _) -> ok.
