(ns giro.tally
  "Counts what is told by couriers of both banks when they start, and by the node when it is connected."
  (:require
   [magnetar.erlang :as erlang]))

(set! *warn-on-reflection* true)

(defn init
  "A count of nothing."
  [_]
  (erlang/monitor-nodes true)
  [:ok {:started {} :connected 0}])

(defn handle-call
  "Returns the counts: {:started {node n} :connected n}."
  [_ _ counts]
  [:reply counts counts])

(defn handle-info
  "Counts an event."
  [[what node] counts]
  [:noreply (case what
              :started (update-in counts [:started (name node)] (fnil inc 0))
              :nodeup (update counts :connected inc)
              counts)])
