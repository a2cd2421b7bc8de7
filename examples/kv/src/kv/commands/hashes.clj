(ns kv.commands.hashes
  "Hashes."
  (:require
   [kv.commands.times :as times]
   [kv.db :as db]
   [kv.resp :as resp]))

(set! *warn-on-reflection* true)

(defn- get-hash [db k]
  (db/typed db :hash k))

(defn- set-fields [command reply]
  (fn [db k & pairs]
    (when (odd? (count pairs))
      (resp/fail (str "ERR wrong number of arguments for '" command "' command")))
    (let [before (or (get-hash db k) {})
          after (into before (map vec) (partition 2 pairs))]
      [(db/put db k after) (reply before after)])))

(defn- hsetnx [db k field v]
  (let [fields (or (get-hash db k) {})]
    (if (contains? fields field)
      [db 0]
      [(db/put db k (assoc fields field v)) 1])))

(defn- hdel [db k & fields]
  (let [before (get-hash db k)
        after (reduce dissoc before fields)
        removed (- (count before) (count after))]
    [(if (zero? removed) db (db/put db k after)) removed]))

(defn- hincrby [db k field n]
  (let [n (long (times/integer n))
        fields (or (get-hash db k) {})
        before (or (resp/whole-number (get fields field "0")) (resp/fail "ERR hash value is not an integer"))
        after (try
                (Math/addExact (long before) n)
                (catch ArithmeticException _
                  (resp/fail "ERR increment or decrement would overflow")))]
    [(db/put db k (assoc fields field (str after))) after]))

(def commands
  "See `kv.commands`."
  {"HGET"    {:arity 3 :read (fn [db k field] (get (get-hash db k) field))}
   "HMGET"   {:arity -3 :read (fn [db k & fields] (mapv (or (get-hash db k) {}) fields))}
   "HGETALL" {:arity 2 :read (fn [db k] (into [] cat (get-hash db k)))}
   "HKEYS"   {:arity 2 :read (fn [db k] (vec (keys (get-hash db k))))}
   "HVALS"   {:arity 2 :read (fn [db k] (vec (vals (get-hash db k))))}
   "HLEN"    {:arity 2 :read (fn [db k] (count (get-hash db k)))}
   "HEXISTS" {:arity 3 :read (fn [db k field] (if (contains? (get-hash db k) field) 1 0))}
   "HSET"    {:arity -4 :write (set-fields "hset" (fn [before after] (- (count after) (count before))))}
   "HMSET"   {:arity -4 :write (set-fields "hmset" (constantly :OK))}
   "HSETNX"  {:arity 4 :write hsetnx}
   "HDEL"    {:arity -3 :write hdel}
   "HINCRBY" {:arity 4 :write hincrby}})
