(ns giro.killer
  "Kills couriers of both banks, now and then a supervisor, and ends the connection. The seed decides what it
  strikes."
  (:require
   [magnetar.actor :as actor :refer [! after receive]]
   [magnetar.erlang :as erlang]
   [magnetar.supervisor :as sup])
  (:import
   (clojure.lang ExceptionInfo)
   (java.util Random)))

(set! *warn-on-reflection* true)

(def ^:private targets
  "Each is struck as often as it stands here."
  (vec (mapcat (fn [[target times]] (repeat times target))
               {:courier-there 5 :courier-here 5 :supervisor-there 1 :supervisor-here 1 :connection 1})))

(defn- any-of [^Random random xs]
  (when (seq xs)
    (nth xs (.nextInt random (count xs)))))

(defn- child
  "The pid of a child that runs."
  [random supervisor]
  (any-of random (remove (some-fn nil? keyword?) (map :pid (sup/which-children supervisor)))))

(defn- whereis-there [node]
  (let [pid (erlang/call node :erlang :whereis [:giro_couriers])]
    (when-not (= :undefined pid) pid)))

(defn- victim [target random node]
  (case target
    :courier-there (child random :giro_couriers)
    :courier-here (child random [:giro_couriers node])
    :supervisor-there (whereis-there node)
    :supervisor-here (actor/whereis :giro_couriers)))

(defn- strike
  "True if it has hit. A supervisor may just be dead, or the connection be lost."
  [target random node]
  (try
    (if (= :connection target)
      (true? (erlang/disconnect node))
      (some-> (victim target random node) (actor/exit :kill)))
    (catch ExceptionInfo _ false)))

(defn run
  "Strikes until it gets [:stop from]; answers [:hits counts]. Calls (note target) after each hit."
  [node seed note]
  (let [random (Random. seed)]
    (loop [hits (zipmap targets (repeat 0))]
      (receive
        [:stop from] (! from [:hits hits])
        (after (+ 50 (.nextInt random 200))
          (let [target (any-of random targets)]
            (if (strike target random node)
              (do (note target)
                  (recur (update hits target inc)))
              (recur hits))))))))
