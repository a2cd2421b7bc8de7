(ns magnetar.erlang.observer-test
  "What Erlang's observer asks; from a real BEAM in a run with --with-erl."
  {:wakes false
   :limit 120000}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [after receive self]]
   [magnetar.erlang.beam :as beam :refer [ask with-beam]]
   [magnetar.erlang.impl.functions :as functions]
   [magnetar.erlang.scripted :as scripted :refer [eventually]]
   [magnetar.gen-server :as gs]))

(set! *warn-on-reflection* true)

(def ^:private table (functions/table #{#'scripted/eventually}))

(defn- asked [module function & args]
  (functions/answer table module function (vec args)))

(defn- got []
  (receive x x (after scripted/limit-ms :none)))

(deftest the-system-is-told-in-pairs
  (let [pairs (asked :observer_backend :sys_info)]
    (is (every? #(and (vector? %) (= 2 (count %)) (keyword? (first %))) pairs))
    (is (nat-int? (:process_count (into {} pairs))))
    (is (= [() ()] [(asked :observer_backend :get_port_list) (asked :observer_backend :get_table_list :ets ())]))))

(deftest each-process-has-a-row
  (actor/with-process {:name :inbox}
    (let [idle (actor/spawn #(receive :end nil))]
      (is (= :ok (asked :observer_backend :procs_info (self))))
      (let [[kind from rows] (got)
            row-of (into {} (map (juxt second identity)) rows)]
        (is (= [:procs_info (self)] [kind from]))
        (is (every? #(and (= 8 (count %)) (= :etop_proc_info (first %))) rows))
        (is (= [:inbox [:magnetar :process 0]] (map #(nth (row-of %) 4) [(self) idle])))
        (is (every? string? (map #(apply str (map char (nth % 6))) rows))))
      (actor/exit idle :kill))))

(deftest a-function-that-a-beam-may-call-is-exported
  (is (= [true false false true true false false]
         [(asked :erlang :function_exported :observer_backend :procs_info 1)
          (asked :erlang :function_exported :observer_backend :procs_info 2)
          (asked :erlang :function_exported :observer_backend :etop_collect 1)
          (asked :erlang :function_exported :erlang :node 0)
          (asked :erlang :function_exported :magnetar.erlang.scripted :eventually 1)
          (asked :erlang :function_exported :lists :sum 1)
          (asked :erlang :function_exported :erlang :node :x)])))

(deftest no-application-is-shown-as-long-as-the-client-lives
  (let [client (actor/spawn #(receive :end nil))
        [how server] (asked :appmon_info :start_link2 client client ())]
    (is (= :ok how))
    (actor/with-process {}
      (run! #(gs/cast server %) [:nothing [] [:no-pid :app_ctrl :till true ()] [(self) :app_ctrl :till false ()] [(self) :load :till true ()]])
      (gs/cast server [(self) :app_ctrl :till true ()])
      (is (= [:delivery server :app_ctrl :till ()] (got)))
      (gs/cast server [(self) :app :shop true ()])
      (is (= [:delivery server :app :shop [() () () ()]] (got))))
    (actor/exit client :kill)
    (is (eventually #(not (actor/alive? server))))))

(deftest a-beam-asks-as-observer-does
  (with-beam
    (fn [_ b]
      (ask b "N = '" beam/us "'")
      (is (= "true" (ask b "lists:keymember(process_count, 1, rpc:call(N, observer_backend, sys_info, []))")))
      (is (= "true" (ask b "rpc:call(N, erlang, function_exported, [observer_backend, procs_info, 1])")))
      (ask b "process_flag(trap_exit, true), P = spawn_link(N, observer_backend, procs_info, [self()])")
      (is (= "true" (ask b "receive {procs_info, P, Rows} -> lists:all(fun(R) -> element(1, R) =:= etop_proc_info andalso size(R) =:= 8 end, Rows) end")))
      (is (= "normal" (ask b "receive {'EXIT', P, Why} -> Why end")))
      (is (= "true" (ask b "lists:member(inbox, [element(5, R) || R <- Rows])")))
      (ask b "{ok, A} = rpc:call(N, appmon_info, start_link2, [self(), self(), []])")
      (ask b "gen_server:cast(A, {self(), app_ctrl, N, true, []})")
      (is (= "[]" (ask b "receive {delivery, A, app_ctrl, N, Apps} -> Apps end"))))))
