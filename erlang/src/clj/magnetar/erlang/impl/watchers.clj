(ns magnetar.erlang.impl.watchers
  "The processes that are told which nodes come and go. The thread of a connection tells them: that a node is up before its
  first signal, and that it is down after its links and monitors have fired."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (magnetar.erlang.wire Links Links$Watcher)
   (magnetar.kernel.process Send)))

(set! *warn-on-reflection* true)

;; The nodes that are up, and whether each is visible; and what nodes each process wants to know of: :all, :visible or :hidden.
(def ^:private none {:up {} :wanted {}})

(defn- wants? [wanted visible?]
  (case wanted
    :all true
    :visible visible?
    :hidden (not visible?)))

(defn- tell [{:keys [wanted]} message visible?]
  (doseq [[pid type] wanted]
    (when (wants? type visible?)
      (Send/signal pid message))))

(defn- up [state node visible?]
  (let [[before now] (swap-vals! state update :up assoc node visible?)]
    (when-not (contains? (:up before) node)
      (tell now [:nodeup node] visible?))))

(defn- down
  "Of a connection that ended before it began, nothing was told."
  [state node]
  (let [[before] (swap-vals! state update :up dissoc node)
        visible? (get (:up before) node)]
    (when (some? visible?)
      (tell before [:nodedown node] visible?))))

(defn begin
  "What `watch` and `unwatch` change."
  [^Links links]
  (let [state (atom none)]
    (.watch links (reify Links$Watcher
                    (up [_ node visible?] (up state node visible?))
                    (down [_ node] (down state node))))
    state))

(defn watch
  "From now on the process is told of nodes of the type."
  [state pid type]
  (swap! state assoc-in [:wanted pid] type))

(defn unwatch
  "The process is told no more."
  [state pid]
  (swap! state update :wanted dissoc pid))
