(ns magnetar.actor.mourner
  "A process that clears away what the dead leave behind: entries of `magnetar.pg` and `magnetar.global`."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! monitor receive]]))

(set! *warn-on-reflection* true)

(defn- mourn [clears]
  (receive
    [::watch pid clear] (recur (assoc clears (monitor pid) clear))
    [:DOWN ref :process pid _] (do
                                 ((clears ref) pid)
                                 (recur (dissoc clears ref)))))

(defonce ^:private mourner (atom nil))

(defn- alive? [pid]
  (and pid (actor/alive? pid)))

(defn- present
  "The pid of the process, started if need be."
  []
  (if (alive? @mourner)
    @mourner
    (locking mourner
      (if (alive? @mourner)
        @mourner
        (reset! mourner (actor/spawn-opt {:context :none :bindings :none} mourn {}))))))

(defn after-death
  "Lets (clear pid) be called some time after the process has died; soon, if it has already."
  [pid clear]
  (! (present) [::watch pid clear])
  nil)
