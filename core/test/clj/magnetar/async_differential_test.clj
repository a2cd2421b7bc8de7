(ns magnetar.async-differential-test
  "Random programs over one channel and over three, run on core.async and on magnetar.async: answers and callbacks must be equal."
  (:require
   [clojure.core.async :as theirs]
   [clojure.datafy :refer [datafy]]
   [clojure.pprint :refer [pprint]]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [clojure.test.check :as check]
   [clojure.test.check.generators :as gen]
   [clojure.test.check.properties :as properties]
   [magnetar.async :as ours]))

(set! *warn-on-reflection* true)

(defmacro ^:private library
  "The operations that programs use, of the namespace with this alias."
  [alias]
  (into {} (for [n '[chan promise-chan buffer dropping-buffer sliding-buffer put! take! offer! poll! close! alts!! do-alts]]
             [(keyword n) (symbol (name alias) (name n))])))

(def ^:private libraries [(library theirs) (library ours)])

;; ---- programs

(defn- throwing-on-multiples-of-seven [x]
  (if (zero? (rem (long x) 7)) (throw (ex-info "seven" {})) x))

(def ^:private transducers
  {:none nil
   :inc (map inc)
   :twice (mapcat (fn [x] [x x]))
   :many (mapcat #(range (mod % 5)))
   :take-3 (take 3)
   :pairs (partition-all 2)
   :triples-of-odd (comp (filter odd?) (partition-all 3))
   :even (filter even?)
   :none-at-all (remove any?)
   :distinct (distinct)
   :runs (partition-by odd?)
   :take-2-twice (comp (mapcat (fn [x] [x x])) (take 2))
   :throws (map throwing-on-multiples-of-seven)
   :nil-for-three (map #(when-not (= 3 %) %))})

(def ^:private channel-generator
  (gen/let [kind (gen/elements [:none :fixed :fixed :dropping :sliding :promise])
            size (gen/choose 1 4)
            xform (if (= kind :none) (gen/return :none) (gen/elements (keys transducers)))
            handler (gen/elements [:nil :value])]
    {:kind kind, :size size, :xform xform, :handler handler}))

(def ^:private value-generator (gen/choose 0 9))

(def ^:private operation-generator
  (gen/frequency [[6 (gen/tuple (gen/return :put!) value-generator)]
                  [6 (gen/return [:take!])]
                  [2 (gen/tuple (gen/return :offer!) value-generator)]
                  [2 (gen/return [:poll!])]
                  [2 (gen/return [:alts-take])]
                  [2 (gen/tuple (gen/return :alts-put) value-generator)]
                  [1 (gen/return [:state])]
                  [1 (gen/return [:close!])]]))

(def ^:private step-generator
  "An operation on one of three channels, or a select over several that calls back; no channel twice in one select."
  (gen/frequency [[3 (gen/tuple (gen/choose 0 2) operation-generator)]
                  [2 (gen/fmap (fn [clauses] [:select (vals (into {} (map (juxt first identity)) clauses))])
                               (gen/vector (gen/one-of [(gen/tuple (gen/choose 0 2)) (gen/tuple (gen/choose 0 2) value-generator)]) 1 4))]]))

(def ^:private program-generator
  (gen/tuple (gen/vector channel-generator 1)
             (gen/vector (gen/fmap #(vector 0 %) operation-generator) 1 40)))

(def ^:private select-program-generator
  (gen/tuple (gen/vector channel-generator 3)
             (gen/vector step-generator 1 40)))

;; ---- running one

(def ^:private handlers
  {:nil (fn [_] nil)
   :value (fn [e] [:handled (ex-message e)])})

(defn- make-channel [{:keys [chan promise-chan buffer dropping-buffer sliding-buffer]} {:keys [kind size xform handler]}]
  (let [xform (transducers xform)
        handler (handlers handler)
        on (fn [b] (if xform (chan b xform handler) (chan b)))]
    (case kind
      :none (chan)
      :fixed (on (buffer size))
      :dropping (on (dropping-buffer size))
      :sliding (on (sliding-buffer size))
      :promise (if xform (promise-chan xform handler) (promise-chan)))))

(defn- comparable
  "What of a state can be compared: core.async counts handlers of an alts!! that has ended among those that wait, and nil as a
  value of a promise that was closed."
  [{:keys [buffer] :as state}]
  (cond-> (dissoc state :put-count :take-count) (= 'PromiseBuffer (:type buffer)) (dissoc :buffer)))

(defn- operate
  "What the operation on one channel answers."
  [{:keys [put! take! offer! poll! close! alts!!]} c called [operation value]]
  (case operation
    :put! (put! c value called)
    :take! (take! c called)
    :offer! (offer! c value)
    :poll! (poll! c)
    :alts-take (first (alts!! [c] :default :none))
    :alts-put (first (alts!! [[c value]] :default :none))
    :state (comparable (datafy c))
    :close! (close! c)))

(defn- select
  "What a select answers, if it can do something now; else it calls back."
  [{:keys [do-alts]} channels called clauses]
  (let [index-of (zipmap channels (range))
        plain (fn [[value port]] [value (index-of port)])
        ports (mapv (fn [[i value]] (if value [(channels i) value] (channels i))) clauses)]
    (some-> (do-alts (with-meta (comp called plain) {:on-caller? true}) ports {:priority true}) deref plain)))

(defn- answer-of
  "What the step answers; a callback that it leaves is written into the log as [:called index result]."
  [library channels log i [where what]]
  (let [called #(swap! log conj [:called i %])]
    (if (= :select where)
      (select library channels called what)
      (operate library (channels where) called what))))

(defn- ordered
  "The log with the callbacks of one step in the order in which they were left, because the order of their calls is not promised."
  [log]
  (mapcat #(sort-by second %) (partition-by first log)))

(defn- run-program
  "The log of a program: the answer of each step, after the callbacks that it caused."
  [library [channels steps]]
  (let [channels (mapv #(make-channel library %) channels)
        log (atom [])]
    (doseq [[i step] (map-indexed vector steps)]
      (let [answer (try (answer-of library channels log i step)
                        (catch Throwable e [:threw (ex-message e)]))]
        (swap! log conj [:answered i answer])))
    (ordered @log)))

(defn- same? [libraries program]
  (apply = (map #(run-program % program) libraries)))

(defn- report [program]
  (with-out-str
    (pprint {:program program, :core.async (run-program (first libraries) program), :magnetar (run-program (second libraries) program)})))

(defn- check-programs [n generator]
  (let [{:keys [pass? shrunk seed]} (check/quick-check n (properties/for-all [program generator] (same? libraries program)))]
    (is (true? pass?) (str "seed " seed "\n" (some-> shrunk :smallest first report str/trim)))))

(deftest ^{:spec ["C2" "C3" "C5" "C6" "C8" "C9" "C10" "C11" "C12" "C13" "C14"]}
  random-programs-over-one-channel-give-the-same-answers-and-callbacks-as-core-async
  (check-programs 1000 program-generator))

(deftest ^{:spec ["C15" "C16"]} random-programs-with-selects-over-three-channels-give-the-same-as-core-async
  (check-programs 1000 select-program-generator))

(deftest a-planted-fault-is-found
  (doseq [fault [{:offer! ours/put!}
                 {:close! (fn [_] nil)}
                 {:do-alts (fn [f ports opts] (ours/do-alts f (reverse ports) opts))}]]
    (let [libraries (update libraries 1 merge fault)]
      (is (false? (:pass? (check/quick-check 1000 (properties/for-all [program select-program-generator] (same? libraries program)))))))))
