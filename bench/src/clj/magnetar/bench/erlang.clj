(ns magnetar.bench.erlang
  "Erlang as a peer: a module that measures pieces of work in a node of its own, where Erlang is installed."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.bench.child :as child])
  (:import
   (java.io File)))

(set! *warn-on-reflection* true)

(def ^:private frame
  "What each module has beside its own clauses of work/2: one round that does not count, then the median of three, in milliseconds."
  "main([What | Arguments]) ->
  logger:set_primary_config(level, none),
  Numbers = [list_to_integer(A) || A <- Arguments],
  work(What, Numbers),
  Times = lists:sort([one(What, Numbers) || _ <- lists:seq(1, 3)]),
  io:format(\"~.4f~n\", [lists:nth(2, Times) / 1.0e6]),
  halt().
one(What, Numbers) ->
  Me = self(),
  spawn(fun() -> erlang:garbage_collect(), T = erlang:monotonic_time(nanosecond), work(What, Numbers),
                 Me ! {took, erlang:monotonic_time(nanosecond) - T} end),
  receive {took, T} -> T end.
times(0, _) -> ok;
times(N, F) -> F(), times(N - 1, F).
resident() ->
  {ok, Text} = file:read_file(\"/proc/self/statm\"),
  [_, Pages | _] = string:split(binary_to_list(Text), \" \", all),
  list_to_integer(Pages) * 4096.
")

(defn- compiled-into
  "A folder with the compiled module, or nil where Erlang is not installed."
  [module text]
  (when-some [erlc (child/executable "erlc")]
    (let [folder (.toFile (java.nio.file.Files/createTempDirectory module (make-array java.nio.file.attribute.FileAttribute 0)))
          source (io/file folder (str module ".erl"))]
      (spit source (str "-module(" module ").\n-export([main/1]).\n" text frame))
      (child/output [erlc "-o" folder source])
      (run! #(.deleteOnExit ^File %) [folder source (io/file folder (str module ".beam"))])
      (str folder))))

(defn peer
  "The module of this name and text, compiled when it is first needed: {:module :folder}.

  Example: (peer \"magnetar_peer\" \"work(\\\"nothing\\\", [_]) -> ok.\\n\")"
  [module text]
  {:module module :folder (delay (compiled-into module text))})

(defn installed?
  "True if Erlang is there to run the peer.

  Example: (installed? peer)"
  [{:keys [folder]}]
  (some? @folder))

(defn measure
  "What the peer prints about a piece of work: milliseconds, or what the work itself prints before it halts; nil without Erlang.

  Example: (measure peer \"ring\" 1000 1000)"
  [{:keys [module folder]} what & numbers]
  (when-some [folder @folder]
    (parse-double
      (str/trim
        (child/output (concat [(child/executable "erl") "+P" "5000000" "-noshell" "-pa" folder "-run" module "main" what] numbers))))))

(defn variant
  "The variants with Erlang's beside them, if it is there.

  Example: (variant [[\"ours\" f]] peer \"ring\" [1000 1000])"
  [variants peer what numbers]
  (cond-> variants
    (installed? peer) (conj ["Erlang" (fn [] {:ms (apply measure peer what numbers)})])))
