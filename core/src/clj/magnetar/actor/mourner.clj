(ns magnetar.actor.mourner
  "A process that clears away what the dead leave behind: entries of `magnetar.pg` and `magnetar.global`."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! monitor receive self]]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.worlds :as worlds]))

(set! *warn-on-reflection* true)

(defn- watch [clears pid what clear]
  (when-not (clears pid)
    (monitor pid))
  (assoc-in clears [pid what] clear))

(defn- clear-away
  "Calls what there is to clear away after a death; what fails does not keep the rest from it, and is reported. True, unless memory ended: then it is done again."
  [clears pid]
  (try
    (doseq [clear clears]
      (try
        (clear pid)
        (catch Exception e (reports/report "clean-up after a death" e))))
    true
    (catch OutOfMemoryError _ false)))

(defn- mourn
  "Serves with what there is to clear away: from pids to maps from what it is to functions."
  [clears]
  (receive
    [::watch pid what clear] (recur (watch clears pid what clear))
    [:DOWN _ :process pid _] (if (clear-away (vals (clears pid)) pid)
                               (recur (dissoc clears pid))
                               (do (actor/send-after 100 (self) [:DOWN nil :process pid nil])
                                   (recur clears)))))

(defonce ^:private real-mourner (atom nil))

(defn- alive? [pid]
  (and pid (actor/alive? pid)))

(defn- present
  "The pid of the process, started if need be."
  []
  (let [mourner (worlds/of-world real-mourner ::mourner nil)]
    (if (alive? @mourner)
      @mourner
      (locking mourner
        (if (alive? @mourner)
          @mourner
          (reset! mourner (actor/spawn-opt {:context :none :bindings :none} mourn {})))))))

(defn after-death
  "Lets (clear pid) be called some time after the process has died; soon, if it has already. Once for the same `what`."
  [pid what clear]
  (! (present) [::watch pid what clear])
  nil)
