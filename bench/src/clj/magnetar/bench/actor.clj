(ns magnetar.bench.actor
  "`bin/magnetar bench actor`: processes beside Erlang's, with the hand-off of fibers and without."
  (:require
   [magnetar.bench.memory :as memory]
   [magnetar.bench.suite :as suite]
   [magnetar.bench.workload.actors :as actors]))

(set! *warn-on-reflection* true)

(def groups
  "What is compared with what: see `magnetar.bench.suite`.

  Example: (:group (first groups)) => \"ring\""
  [{:group "ring" :workload 'magnetar.bench.workload.actors/rings :arguments [1000 1000] :forks 2 :warm-ups 4 :rounds 7
    :rows [{:name "E5, ring of 1000 x 1000, hand-off / Erlang" :ours "processes" :theirs "Erlang" :target 1.5}]}
   {:group "ring, closed" :workload 'magnetar.bench.workload.actors/rings :arguments [1000 1000] :flags ["-Dmagnetar.hand-off=false"] :forks 2 :warm-ups 4 :rounds 7
    :rows [{:name "E5, ring of 1000 x 1000, without hand-off / Erlang" :ours "processes" :theirs "Erlang" :target 7}]}
   {:group "ping-pong" :workload 'magnetar.bench.workload.actors/ping-pongs :arguments [300000] :forks 2 :warm-ups 4 :rounds 7
    :rows [{:name "E1, ping-pong, hand-off / Erlang" :ours "processes" :theirs "Erlang"}]}
   {:group "fan-in" :workload 'magnetar.bench.workload.actors/fan-ins :arguments [4 2000000] :forks 2 :warm-ups 4 :rounds 7
    :rows [{:name "4 senders to 1 mailbox / Erlang" :ours "processes" :theirs "Erlang" :target 0.4}]}
   {:group "spawn" :workload 'magnetar.bench.workload.actors/spawns :arguments [300000] :forks 2 :warm-ups 4 :rounds 7
    :rows [{:name "spawn and exit / Erlang" :ours "processes" :theirs "Erlang" :target 0.5}]}
   {:group "star" :workload 'magnetar.bench.workload.actors/stars :arguments [10000] :forks 1 :warm-ups 20 :rounds 7
    :rows [{:name "10,000 deaths over links, each with a monitor / Erlang" :ours "processes" :theirs "Erlang"}]}
   {:group "storm" :workload 'magnetar.bench.workload.actors/storms :arguments [100000] :forks 1 :warm-ups 6 :rounds 7
    :rows [{:name "link storm: 100,000 at once / ten of 10,000" :ours "at once" :theirs "in ten parts" :target 1.5}]}])

(defn- memory-rows [processes]
  (let [theirs (actors/in-erlang "memory" processes)]
    [(memory/row {:library 'actors :named "resident bytes of an idle process, of 1,000,000, :bindings :none / Erlang" :workload 'park :target 0.5} processes theirs)
     (memory/row {:library 'actors :named "the same, with dynamic bindings / Erlang" :workload 'park-bound} processes theirs)]))

(defn run
  "Runs the groups, or those named in :groups, and \"memory\"; see `magnetar.bench.suite/run-with-memory`.

  Example: (run {:quick true})"
  [settings]
  (suite/run-with-memory groups memory-rows settings))
