(ns hot-upgrade.tally
  "Version 1: counts the visits of each client, in one map."
  {:version 1})

(defn init [_]
  [:ok {}])

(defn handle-call [[_ client] _ visits]
  (let [visits (update visits client (fnil inc 0))]
    [:reply {:version 1 :visits (visits client)} visits]))
