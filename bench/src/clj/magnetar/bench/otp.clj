(ns magnetar.bench.otp
  "`bin/magnetar bench otp`: servers and supervisors beside Erlang's."
  (:require
   [magnetar.bench.memory :as memory]
   [magnetar.bench.suite :as suite]
   [magnetar.bench.workload.servers :as servers]))

(set! *warn-on-reflection* true)

(defn- both
  "The rows of both hostings."
  [what target]
  (for [hosting ["threaded" "activated"]]
    (cond-> {:name (str what ", " hosting " / Erlang") :ours hosting :theirs "Erlang"}
      target (assoc :target target))))

(defn- group [named workload arguments what target]
  {:group named :workload workload :arguments arguments :forks 2 :warm-ups 6 :rounds 7 :rows (both what target)})

(defn- long-rounds [group]
  (assoc group :warm-ups 2 :rounds 4))

(defn- collected-in-parallel
  "The same with the JDK's parallel collector: G1's barriers are a great part of what servers cost."
  [{:keys [group] :as given}]
  (-> given
      (assoc :group (str group ", parallel collector") :forks 1)
      (assoc :flags ["-XX:+UseParallelGC"])
      (update :rows (partial mapv #(-> (update % :name str ", parallel collector") (dissoc :target))))))

(def groups
  "What is compared with what: see `magnetar.bench.suite`.

  Example: (:group (first groups)) => \"call\""
  [(group "call" 'magnetar.bench.workload.servers/called [1 200000] "call, 1 caller" 0.75)
   (group "call of 100" 'magnetar.bench.workload.servers/called [100 200000] "call, 100 callers" 0.3)
   (collected-in-parallel (group "call of 100" 'magnetar.bench.workload.servers/called [100 200000] "call, 100 callers" nil))
   (group "cast" 'magnetar.bench.workload.servers/cast-to [1000000] "cast" 0.5)
   (collected-in-parallel (group "cast" 'magnetar.bench.workload.servers/cast-to [1000000] "cast" nil))
   (long-rounds (group "children" 'magnetar.bench.workload.servers/started [100000] "100,000 children" 1))
   (long-rounds (group "storm" 'magnetar.bench.workload.servers/storms [10000] "storm of 10,000 restarts" nil))])

(defn- memory-rows [n]
  (let [theirs (servers/in-erlang "memory" n)]
    [(memory/row {:library 'servers :named "resident bytes of an idle server, of 1,000,000, activated / Erlang" :workload 'park :target 0.15} n theirs)
     (memory/row {:library 'servers :named "the same, threaded" :workload 'park-threaded} n theirs)]))

(defn run
  "Runs the groups, or those named in :groups, and \"memory\"; see `magnetar.bench.suite/run-with-memory`.

  Example: (run {:quick true})"
  [settings]
  (suite/run-with-memory groups memory-rows settings))
