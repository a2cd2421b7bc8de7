(ns kv.commands.strings
  "Strings and counters."
  (:require
   [clojure.string :as str]
   [kv.commands.times :as times]
   [kv.db :as db]
   [kv.resp :as resp]))

(set! *warn-on-reflection* true)

(def ^:private ^:const longest "The greatest size of a string that grows." 536870912)

(defn- get-string [db k]
  (db/typed db :string k))

(defn- text-at [db k]
  (or (get-string db k) ""))

;; ---- SET

(def ^:private flags #{:nx :xx :get :keepttl})

(defn- times-of [options]
  (select-keys options (keys times/units)))

(defn- check-set [{:keys [nx xx keepttl] :as options}]
  (when (or (and nx xx) (< 1 (cond-> (count (times-of options)) keepttl inc)))
    (resp/fail "ERR syntax error"))
  options)

(defn- set-options
  "The words after SET key value as a map, as in {:ex \"10\" :nx true}."
  [words]
  (loop [[word & more] words options {}]
    (let [option (some-> word str/lower-case keyword)]
      (cond
        (nil? word) (check-set options)
        (flags option) (recur more (assoc options option true))
        (and (times/units option) (seq more)) (recur (rest more) (assoc options option (first more)))
        :else (resp/fail "ERR syntax error")))))

(defn- store
  "SET, with the command that does the same at any later time."
  [db k v deadline keep?]
  (let [db (if keep? (db/put db k v) (db/put-new db k v))]
    (if deadline
      [(db/expire db k deadline) ["SET" k v "PXAT" (str deadline)]]
      [db (cond-> ["SET" k v] keep? (conj "KEEPTTL"))])))

(defn- set-with-options [db k v words]
  (let [{:keys [nx xx get keepttl] :as options} (set-options words)
        [unit n] (first (times-of options))
        deadline (when unit (times/deadline (:now db) unit n "set"))
        there? (some? (db/value db k))
        old (when get (get-string db k))]
    (if (or (and nx there?) (and xx (not there?)))
      [db old]
      (let [[db log] (store db k v deadline keepttl)]
        [db (if get old :OK) log]))))

(defn- set-command
  ([db k v] [(db/put-new db k v) :OK])
  ([db k v & words] (set-with-options db k v words)))

(defn- set-for [unit command]
  (fn [db k n v]
    (let [[db log] (store db k v (times/deadline (:now db) unit n command) false)]
      [db :OK log])))

(defn- getset [db k v]
  (let [old (get-string db k)]
    [(db/put-new db k v) old ["SET" k v]]))

(defn- setnx [db k v]
  (if (db/value db k)
    [db 0]
    [(db/put-new db k v) 1]))

(defn- getdel [db k]
  [(if-some [_ (get-string db k)] (db/delete db k) db) (get-string db k)])

(defn- mset [db & pairs]
  (when (odd? (count pairs))
    (resp/fail "ERR wrong number of arguments for 'mset' command"))
  [(reduce (fn [db [k v]] (db/put-new db k v)) db (partition 2 pairs)) :OK])

(defn- mget [db & ks]
  (mapv #(let [v (db/value db %)] (when (string? v) v)) ks))

(defn- append [db k more]
  (let [before (text-at db k)]
    (when (< longest (+ (count before) (count more)))
      (resp/fail "ERR string exceeds maximum allowed size (proto-max-bulk-len)"))
    (let [text (str before more)]
      [(db/put db k text) (count text)])))

;; ---- counters

(defn- add [db k ^long delta]
  (let [before (times/integer (or (get-string db k) "0"))
        after (try
                (Math/addExact (long before) delta)
                (catch ArithmeticException _
                  (resp/fail "ERR increment or decrement would overflow")))]
    [(db/put db k (str after)) after]))

(defn- decrement [db k n]
  (let [n (long (times/integer n))]
    (when (= Long/MIN_VALUE n)
      (resp/fail "ERR decrement would overflow"))
    (add db k (- n))))

(defn- decimal
  "The argument as a number, which has few digits when it is written out."
  ^BigDecimal [^String text]
  (let [n (try
            (when (<= (.length text) 256)
              (BigDecimal. text))
            (catch NumberFormatException _ nil))]
    (if (and n (<= -308 (.scale ^BigDecimal n) 308))
      n
      (resp/fail "ERR value is not a valid float"))))

(defn- add-decimal [db k n]
  (let [sum (.stripTrailingZeros (.add (decimal (or (get-string db k) "0")) (decimal n)))]
    (when (< 308 (- (.precision sum) (.scale sum)))
      (resp/fail "ERR increment would produce NaN or Infinity"))
    (let [text (.toPlainString sum)]
      [(db/put db k text) text ["SET" k text "KEEPTTL"]])))

(def commands
  "See `kv.commands`."
  {"GET"         {:arity 2 :read get-string}
   "MGET"        {:arity -2 :read mget}
   "STRLEN"      {:arity 2 :read (fn [db k] (count (text-at db k)))}
   "SET"         {:arity -3 :write set-command}
   "SETEX"       {:arity 4 :write (set-for :ex "setex")}
   "PSETEX"      {:arity 4 :write (set-for :px "psetex")}
   "SETNX"       {:arity 3 :write setnx}
   "GETSET"      {:arity 3 :write getset}
   "GETDEL"      {:arity 2 :write getdel}
   "MSET"        {:arity -3 :keys :every-second :write mset}
   "APPEND"      {:arity 3 :write append}
   "INCR"        {:arity 2 :write (fn [db k] (add db k 1))}
   "DECR"        {:arity 2 :write (fn [db k] (add db k -1))}
   "INCRBY"      {:arity 3 :write (fn [db k n] (add db k (times/integer n)))}
   "DECRBY"      {:arity 3 :write decrement}
   "INCRBYFLOAT" {:arity 3 :write add-decimal}})
