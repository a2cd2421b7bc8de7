(ns kv.commands.sets
  "Sets."
  (:require
   [clojure.set :as set]
   [kv.db :as db]))

(set! *warn-on-reflection* true)

(defn- get-set [db k]
  (or (db/typed db :set k) #{}))

(defn- change
  "SADD and SREM: the reply is how many members came or went."
  [f]
  (fn [db k & members]
    (let [before (get-set db k)
          after (reduce f before members)
          changed (abs (- (count after) (count before)))]
      [(if (zero? changed) db (db/put db k after)) changed])))

(defn- combine [f]
  (fn [db & ks]
    (apply f (mapv #(get-set db %) ks))))

(def commands
  "See `kv.commands`."
  {"SMEMBERS"  {:arity 2 :read get-set}
   "SISMEMBER" {:arity 3 :read (fn [db k member] (if (contains? (get-set db k) member) 1 0))}
   "SCARD"     {:arity 2 :read (fn [db k] (count (get-set db k)))}
   "SINTER"    {:arity -2 :read (combine set/intersection)}
   "SUNION"    {:arity -2 :read (combine set/union)}
   "SDIFF"     {:arity -2 :read (combine set/difference)}
   "SADD"      {:arity -3 :write (change conj)}
   "SREM"      {:arity -3 :write (change disj)}})
