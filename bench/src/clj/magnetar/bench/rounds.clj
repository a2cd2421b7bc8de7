(ns magnetar.bench.rounds
  "Variants of one piece of work, in turn, in this JVM: the child of `magnetar.bench.suite`.

  A variant is [name f]. All of a round have to give the same value, or the run fails: what is compared does the same. A variant that
  measures itself, as other processes do, gives {:ms .. :value ..}. A round in which others used the processors is run again."
  (:require
   [clojure.edn :as edn]
   [magnetar.bench.machine :as machine]))

(set! *warn-on-reflection* true)

(defn- timed
  [collect f]
  (when collect (System/gc))
  (let [start (System/nanoTime)
        value (f)
        ms (/ (- (System/nanoTime) start) 1e6)]
    (if (and (map? value) (:ms value)) value {:ms ms :value value})))

(defn- agree
  "The results, if all variants gave the same value."
  [results]
  (let [[[_ {value :value}] & others] (seq results)]
    (doseq [[named other] others]
      (when-not (= value (:value other))
        (throw (ex-info (str "The variants of a comparison gave different values: " named " is one of them.") {:variant named}))))
    results))

(def ^:private quiet-share
  "Of all processors, what others may use in a round that counts."
  0.08)

(def ^:private most-attempts
  "Rounds that are run at most, as a multiple of those that count."
  2)

(defn- foreign-share
  "What others used of all processors, between two readings of `machine/processor-times`; 0 where it cannot be known."
  [before after]
  (if (and before after)
    (let [[busy own wall] (map - after before)]
      (max 0.0 (/ (- (double busy) (double own)) (max 1.0 (double wall)))))
    0.0))

(defn- one-round
  "The milliseconds of each variant, and as :foreign the share of others; every second round runs backwards."
  [variants collect round]
  (let [order (cond-> variants (odd? (long round)) reverse)
        before (machine/processor-times)
        results (agree (into {} (map (fn [[named f]] [named (timed collect f)])) order))]
    (assoc (update-vals results :ms) :foreign (foreign-share before (machine/processor-times)))))

(defn- quiet?
  [round]
  (<= (double (:foreign round)) (double quiet-share)))

(defn- enough?
  [rounds n]
  (or (= n (count (filter quiet? rounds)))
      (= (count rounds) (* (long n) (long most-attempts)))))

(defn run
  "Returns a map from variant to milliseconds for each of `rounds`, after `warm-ups` that do not count: the quietest, if others were busy.
  Garbage is collected before each variant, unless :collect is false.

  Example: (run [[\"a\" #(+ 1 2)] [\"b\" #(+ 2 1)]] {:warm-ups 1 :rounds 2})"
  [variants {:keys [warm-ups rounds collect] :or {collect true}}]
  (dotimes [i warm-ups] (one-round variants collect i))
  (loop [done []]
    (if (enough? done rounds)
      (vec (take rounds (sort-by :foreign done)))
      (recur (conj done (one-round variants collect (count done)))))))

(defn -main
  "The child: `workload` names a function that returns the variants; prints what `run` returns as the last line.

  Example: (-main \"magnetar.bench.workload.folds/evens\" \"[1000]\" \"{:warm-ups 1 :rounds 2}\")"
  [workload arguments settings]
  (let [variants (apply (requiring-resolve (symbol workload)) (edn/read-string arguments))]
    (prn (run variants (edn/read-string settings)))
    (flush)
    (shutdown-agents)
    (System/exit 0)))
