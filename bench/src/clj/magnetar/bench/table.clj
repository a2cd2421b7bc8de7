(ns magnetar.bench.table
  "`bin/magnetar bench table`: tables beside Erlang's ets, and the places for state beside each other."
  (:require
   [magnetar.bench.suite :as suite]
   [magnetar.bench.workload.tables :as tables]))

(set! *warn-on-reflection* true)

(defn- beside-ets [named workload arguments what target]
  {:group named :workload workload :arguments arguments :forks 2 :warm-ups 4 :rounds 7
   :rows [{:name (str what " / ets") :ours "table" :theirs "Erlang" :target target}]})

(defn- state [named processes title]
  {:group named :workload 'magnetar.bench.workload.tables/kept-in :arguments [processes 200000] :forks 1 :warm-ups 4 :rounds 7
   :rows (suite/figures title tables/places)})

(def groups
  "What is compared with what: see `magnetar.bench.suite`.

  Example: (:group (first groups)) => \"lookup\""
  [(beside-ets "lookup" 'magnetar.bench.workload.tables/looked-up [1000000] "1,000,000 lookups in a set of 1,000,000" 0.5)
   (beside-ets "insert" 'magnetar.bench.workload.tables/inserts [1000000] "1,000,000 inserts into a set" 0.5)
   (beside-ets "counter" 'magnetar.bench.workload.tables/counted [100 1000000] "update-counter of one row, 100 processes" 1.0)
   (beside-ets "range" 'magnetar.bench.workload.tables/ranged [1000000 20000] "20,000 ranges of 100 rows of an ordered-set of 1,000,000" 1.0)
   (state "state of one" 1 "State, 1 writer: ")
   (state "state of many" 100 "State, 100 writers: ")])

(defn run
  "Runs the groups, or those named in :groups; see `magnetar.bench.suite/run`.

  Example: (run {:quick true})"
  [settings]
  (suite/run groups settings))
