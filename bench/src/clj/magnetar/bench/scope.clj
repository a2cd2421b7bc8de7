(ns magnetar.bench.scope
  "`bin/magnetar bench scope`: scopes, context values and `pmap` beside the JDK's virtual threads, `bound-fn*` and Go."
  (:require
   [magnetar.bench.suite :as suite]))

(set! *warn-on-reflection* true)

(def ^:private ways-to-fetch
  ["go, blocking" "fork, blocking" "pmap, blocking" "sendAsync, callback onto a channel" "sendAsync, join"])

(def groups
  "What is compared with what: see `magnetar.bench.suite`.

  Example: (:group (first groups)) => \"travel\""
  [{:group "travel" :workload 'magnetar.bench.workload.scopes/travel :arguments [500000] :forks 2 :warm-ups 5 :rounds 8
    :rows (into [{:name "F, pmap of 500,000: context value / explicit argument" :ours "context value" :theirs "explicit argument" :target 1.25}
                 {:name "F, pmap of 500,000: binding frame / explicit argument" :ours "dynamic var, by frame" :theirs "explicit argument"
                  :target 1.4}
                 {:name "F, binding frame / bound-fn*, both in pmap" :ours "dynamic var, by frame" :theirs "bound-fn*" :target 0.1}
                 {:name "F, context value / bound-fn*, both in pmap" :ours "context value" :theirs "bound-fn*" :target 0.1}
                 {:name "F, binding frame, pmap / bound-fn*, executor" :ours "dynamic var, by frame" :theirs "executor, bound-fn*" :target 0.1}
                 {:name "F, pmap / executor, explicit argument" :ours "explicit argument" :theirs "executor, explicit argument"}]
                (suite/figures "F: " ["explicit argument" "context value" "dynamic var, by frame" "bound-fn*"
                                      "executor, explicit argument" "executor, bound-fn*"]))}
   {:group "fork" :workload 'magnetar.bench.workload.scopes/fork-and-join :arguments [100000] :forks 3 :warm-ups 8 :rounds 15
    :rows [{:name "fork + join, 100,000, one by one / startVirtualThread + join" :ours "fork, join" :theirs "startVirtualThread, join" :target 1.3}]}
   {:group "fork all" :workload 'magnetar.bench.workload.scopes/fork-all-and-join :arguments [100000] :forks 2 :warm-ups 8 :rounds 15
    :rows [{:name "fork 100,000, join all / startVirtualThread, join all" :ours "fork, join" :theirs "startVirtualThread, join"}]}
   {:group "sleepers" :workload 'magnetar.bench.workload.scopes/sleepers :arguments [100000] :forks 1 :warm-ups 3 :rounds 9
    :rows [{:name "100,000 sleepers of 1 s / Go" :ours "fork, sleep" :theirs "Go" :target 1.5}]}
   {:group "20 pages" :workload 'magnetar.bench.workload.http/pages :arguments [20 300] :forks 1 :warm-ups 3 :rounds 7
    :rows (into [{:name "A2, 20 pages of 300 ms: go, blocking / sendAsync" :ours "go, blocking" :theirs "sendAsync, callback onto a channel"}]
                (suite/figures "A2: " ways-to-fetch))}
   {:group "90 pages" :workload 'magnetar.bench.workload.http/pages :arguments [90 300] :forks 1 :warm-ups 3 :rounds 7
    :rows (into [{:name "B, 90 pages of 300 ms: go, blocking / sendAsync" :ours "go, blocking" :theirs "sendAsync, callback onto a channel"}]
                (suite/figures "B: " ways-to-fetch))}])

(defn run
  "Runs the groups, or those named in :groups; see `magnetar.bench.suite/run`.

  Example: (run {:quick true})"
  [settings]
  (suite/run groups settings))
