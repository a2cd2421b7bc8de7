(ns kv.commands.keys
  "Keys of any type, and when they expire."
  (:refer-clojure :exclude [keys])
  (:require
   [clojure.string :as str]
   [kv.commands.times :as times]
   [kv.db :as db]
   [kv.glob :as glob]
   [kv.resp :as resp]))

(set! *warn-on-reflection* true)

(defn- del [db & ks]
  (let [after (reduce db/delete db ks)]
    [after (- (count (:entries db)) (count (:entries after)))]))

(defn- exists [db & ks]
  (count (filter #(some? (db/value db %)) ks)))

(defn- keys [db pattern]
  (filterv (glob/matcher pattern) (db/live-keys db)))

(defn- flush-all [db & [mode & more]]
  (when (or more (not (contains? #{nil "SYNC" "ASYNC"} (some-> mode str/upper-case))))
    (resp/fail "ERR syntax error"))
  [(assoc db/empty-db :now (:now db)) :OK ["FLUSHALL"]])

;; ---- expiry

(def ^:private options #{"NX" "XX" "GT" "LT"})

(defn- checked
  "The options of EXPIRE as a set."
  [words]
  (let [chosen (into #{} (map str/upper-case) words)]
    (when-some [word (first (remove #(options (str/upper-case %)) words))]
      (resp/fail (str "ERR Unsupported option " word)))
    (when (and (chosen "NX") (next chosen))
      (resp/fail "ERR NX and XX, GT or LT options at the same time are not compatible"))
    (when (and (chosen "GT") (chosen "LT"))
      (resp/fail "ERR GT and LT options at the same time are not compatible"))
    chosen))

(defn- allowed?
  "Does an option of EXPIRE allow the change of this deadline?"
  [before ^long after option]
  (case option
    "NX" (nil? before)
    "XX" (some? before)
    "GT" (and (some? before) (< (long before) after))
    "LT" (or (nil? before) (< after (long before)))))

(defn- expire-in [unit command]
  (fn [db k n & words]
    (let [chosen (checked words)
          deadline (times/instant (:now db) unit n command)]
      (cond
        (nil? (db/value db k)) [db 0]
        (not-every? #(allowed? (db/deadline db k) deadline %) chosen) [db 0]
        (<= (long deadline) (long (:now db))) [(db/delete db k) 1 ["DEL" k]]
        :else [(db/expire db k deadline) 1 ["PEXPIREAT" k (str deadline)]]))))

(defn- persist [db k]
  (if (and (db/value db k) (db/deadline db k))
    [(db/persist db k) 1]
    [db 0]))

(defn- time-left [db k]
  (cond
    (nil? (db/value db k)) -2
    (nil? (db/deadline db k)) -1
    :else (max 0 (- (long (db/deadline db k)) (long (:now db))))))

(defn- seconds-left [db k]
  (let [millis (long (time-left db k))]
    (if (neg? millis)
      millis
      (quot (+ millis 500) 1000))))

(def commands
  "See `kv.commands`."
  {"EXISTS"    {:arity -2 :read exists}
   "TYPE"      {:arity 2 :read (fn [db k] (db/type-of (db/value db k)))}
   "KEYS"      {:arity 2 :read keys}
   "DBSIZE"    {:arity 1 :read (fn [db] (count (:entries db)))}
   "TTL"       {:arity 2 :read seconds-left}
   "PTTL"      {:arity 2 :read time-left}
   "DEL"       {:arity -2 :keys :all :write del}
   "UNLINK"    {:arity -2 :keys :all :write del}
   "FLUSHDB"   {:arity -1 :write flush-all}
   "FLUSHALL"  {:arity -1 :write flush-all}
   "EXPIRE"    {:arity -3 :write (expire-in :ex "expire")}
   "PEXPIRE"   {:arity -3 :write (expire-in :px "pexpire")}
   "EXPIREAT"  {:arity -3 :write (expire-in :exat "expireat")}
   "PEXPIREAT" {:arity -3 :write (expire-in :pxat "pexpireat")}
   "PERSIST"   {:arity 2 :write persist}})
