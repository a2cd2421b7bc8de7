(ns kv.commands.lists
  "Lists."
  (:require
   [kv.commands.times :as times]
   [kv.db :as db]
   [kv.deque :as deque]
   [kv.resp :as resp]))

(set! *warn-on-reflection* true)

(defn- get-list [db k]
  (db/typed db :list k))

(defn- length ^long [db k]
  (if-some [items (get-list db k)]
    (deque/count items)
    0))

(defn- push [push-one]
  (fn [db k & items]
    (let [all (reduce push-one (or (get-list db k) deque/empty-deque) items)]
      [(db/put db k all) (deque/count all)])))

(defn- pop-count ^long [text]
  (let [n (resp/whole-number text)]
    (if (and n (not (neg? (long n))))
      n
      (resp/fail "ERR value is out of range, must be positive"))))

(defn- pop-many [db k items n pop-one end]
  (let [states (take (inc (min (long n) (deque/count items))) (iterate pop-one items))]
    [(db/put db k (last states)) (mapv end (butlast states))]))

(defn- pop-from
  "LPOP and RPOP: `pop-one` removes what `end` returns."
  [pop-one end]
  (fn
    ([db k]
     (if-some [items (get-list db k)]
       [(db/put db k (pop-one items)) (end items)]
       [db nil]))
    ([db k n]
     (let [n (pop-count n)]
       (if-some [items (get-list db k)]
         (pop-many db k items n pop-one end)
         [db :nil-array])))))

(defn- from-end
  "The place of an index in a list of that length: a negative one counts from the end."
  ^long [^long size ^long i]
  (if (neg? i) (+ size i) i))

(defn- lrange [db k from to]
  (let [from (times/integer from)
        to (times/integer to)
        items (get-list db k)
        size (length db k)]
    (mapv #(deque/nth items %)
          (range (max 0 (from-end size from))
                 (inc (min (dec size) (from-end size to)))))))

(defn- lindex [db k i]
  (when-some [items (get-list db k)]
    (deque/nth items (from-end (deque/count items) (times/integer i)))))

(def commands
  "See `kv.commands`."
  {"LLEN"   {:arity 2 :read length}
   "LRANGE" {:arity 4 :read lrange}
   "LINDEX" {:arity 3 :read lindex}
   "LPUSH"  {:arity -3 :write (push deque/push-left)}
   "RPUSH"  {:arity -3 :write (push deque/push-right)}
   "LPOP"   {:arity -2 :most 3 :write (pop-from deque/pop-left #(deque/nth % 0))}
   "RPOP"   {:arity -2 :most 3 :write (pop-from deque/pop-right #(deque/nth % (dec (deque/count %))))}})
