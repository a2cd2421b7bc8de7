(ns magnetar.bench.async
  "`magnetar.async` beside `clojure.core.async`: what is compared with what, at which target, and how a run goes.

  A comparison is a ratio of time or memory, ours to theirs. The variants of a group run fork by fork in alternation, the order
  turned round from one round to the next, and each round gives one ratio: a slow minute of the machine then hits both sides."
  (:require
   [magnetar.bench.arguments :as arguments]
   [magnetar.bench.jmh :as jmh]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.memory :as memory]
   [magnetar.bench.report :refer [say]]
   [magnetar.bench.startup :as startup]
   [magnetar.bench.statistics :as statistics]))

(set! *warn-on-reflection* true)

(defn- ours [workload] {:library 'magnetar :workload workload})
(defn- theirs [workload] {:library 'core-async :workload workload})

(def comparisons
  "What is timed: groups of comparisons that share their forks; `:n` is operations per invocation; no `:target`: for information.

  Example: (:group (first comparisons)) => \"ping-pong\""
  [{:group "ping-pong" :n 5000
    :rows [{:name "ping-pong, go / go" :ours 'ping-pong-go :theirs 'ping-pong-go :target 0.1}
           {:name "ping-pong, go / io-thread" :ours 'ping-pong-go :theirs 'ping-pong-io :target 0.5}
           {:name "ping-pong, io-thread / io-thread" :ours 'ping-pong-io :theirs 'ping-pong-io :target 0.5}]}
   {:group "fan-in" :n 50000
    :rows [{:name "4 -> 1, buffer 1024, go / io-thread" :ours 'fan-in-4-go :theirs 'fan-in-4-io :target 0.25}
           {:name "4 -> 1, buffer 1024, io-thread / io-thread" :ours 'fan-in-4-io :theirs 'fan-in-4-io :target 0.25}
           {:name "4 -> 1, buffer 1024, go / go" :ours 'fan-in-4-go :theirs 'fan-in-4-go}]}
   {:group "alts!! of 10" :n 5000
    :rows [{:name "alts!! over 10, unbuffered, io-thread" :ours 'select-10-io :theirs 'select-10-io :target 0.5}]}
   {:group "alts!! of 10, buffered" :n 5000
    :rows [{:name "alts!! over 10, buffer 64, io-thread" :ours 'select-10-buffered-io :theirs 'select-10-buffered-io :target 0.5}]}
   {:group "spawn" :n 100000
    :rows [{:name "spawn go and take its result, 100,000" :ours 'spawn-go :theirs 'spawn-go :target 0.2}]}
   {:group "rendezvous" :n 5000
    :rows [{:name "rendezvous, go / go" :ours 'rendezvous-go :theirs 'rendezvous-go}
           {:name "rendezvous, io-thread / io-thread" :ours 'rendezvous-io :theirs 'rendezvous-io}]}
   {:group "one to one" :n 50000
    :rows [{:name "1 -> 1, buffer 1024, go / go" :ours 'one-to-one-go :theirs 'one-to-one-go}
           {:name "1 -> 1, buffer 1024, io-thread / io-thread" :ours 'one-to-one-io :theirs 'one-to-one-io}]}])

(def memory-comparisons
  "What is weighed: 100,000 parked fibers of each kind.

  Example: (count memory-comparisons) => 2"
  {:n 100000
   :rows [{:name "parked go block / core.async go" :ours 'park-go :theirs 'park-go :target 3.0}
          {:name "parked go block / core.async io-thread" :ours 'park-go :theirs 'park-io :target 0.25}]})

(def full
  "Settings of a full run: about eight minutes on two quiet cores.

  Example: (:rounds full) => 3"
  {:rounds 3 :warm-ups 3 :warm-up-ms 1000 :iterations 5 :iteration-ms 300
   :memory-rounds 3 :start-rounds 9
   :jvm-flags ["-Xms1g" "-Xmx2g"]})

(def quick
  "Settings of a quick run: only what has a target, about two minutes.

  Example: (:rounds quick) => 2"
  (assoc full :quick true :rounds 2 :warm-ups 2 :warm-up-ms 800 :iteration-ms 150 :memory-rounds 1 :start-rounds 5))

(defn- selected
  "The groups to run, without what a quick run leaves out."
  [{:keys [quick groups]}]
  (for [group comparisons
        :let [group (cond-> group quick (update :rows #(filterv :target %)))]
        :when (and (seq (:rows group))
                   (or (nil? groups) (contains? groups (:group group))))]
    group))

(defn- variants
  [rows]
  (distinct (mapcat #(vector (ours (:ours %)) (theirs (:theirs %))) rows)))

(defn- in-turn
  "The variants in the order of one round: every second round runs backwards."
  [round xs]
  (if (even? (long round)) xs (reverse xs)))

(defn- timed-fork
  [settings n variant round]
  (let [scores (jmh/fork (merge settings variant {:n n}))]
    (say " " (:library variant) (:workload variant) (format "%.1f ns" (statistics/median scores)))
    (assoc variant :round round :n n :scores scores)))

(defn- run-group
  [{:keys [rounds] :as settings} {:keys [group n rows]}]
  (say group)
  (vec (for [round (range rounds)
             variant (in-turn round (variants rows))]
         (timed-fork settings n variant round))))

(defn- of-variant
  [runs variant]
  (sort-by :round (filter #(= variant (select-keys % [:library :workload])) runs)))

(defn- compare-by
  "The row with both sides' spreads and the ratio of each round, where `value` reads the number of a run."
  [value runs {:keys [target] :as row}]
  (let [us (map value (of-variant runs (ours (:ours row))))
        them (map value (of-variant runs (theirs (:theirs row))))
        ratio (statistics/spread (map / us them))]
    (cond-> (assoc row :ours-value (statistics/spread us) :theirs-value (statistics/spread them) :ratio ratio)
      target (assoc :met? (<= (double (:median ratio)) (double target))))))

(defn- time-rows
  [settings]
  (reduce
    (fn [result group]
      (let [runs (run-group settings group)]
        (-> result
            (update :rows into (map #(compare-by (comp statistics/median :scores) runs %)) (:rows group))
            (update :raw into runs))))
    {:unit "ns/op" :rows [] :raw []}
    (selected settings)))

(defn- weighed
  [variant round]
  (let [bytes (memory/parked variant (:n memory-comparisons))]
    (say " " (:library variant) (:workload variant) bytes)
    (assoc variant :round round :bytes bytes)))

(defn- memory-rows
  [{:keys [memory-rounds]}]
  (say "memory of" (:n memory-comparisons) "parked fibers")
  (let [rows (:rows memory-comparisons)
        runs (vec (for [round (range memory-rounds)
                        variant (in-turn round (variants rows))]
                    (weighed variant round)))]
    {:unit "bytes/fiber"
     :raw runs
     :rows (vec (for [kind [:heap :rss], row rows
                      :when (every? #(kind (:bytes %)) runs)]
                  (compare-by (comp kind :bytes) runs (update row :name str ", " (name kind)))))}))

(defn- started
  "The times of the starts, or nil with a word on the terminal: a launcher that fails must not cost the minutes before."
  [rounds]
  (try (startup/measure rounds)
       (catch clojure.lang.ExceptionInfo e (say "start-up was not measured:" (ex-message e)))))

(defn- start-rows
  [{:keys [start-rounds]}]
  (say "start-up")
  (when-let [{:keys [whole empty require raw]} (started start-rounds)]
    {:unit "ms"
     :raw raw
     :rows (for [[title value] [["(require 'magnetar.async): run of a file with it, less an empty file" require]
                                ["(require 'magnetar.async): the whole run" whole]]]
             {:name title :ours-value value :target 500.0 :met? (< (double (:median value)) 500.0)})
     :empty empty}))

(defn run
  "Runs every comparison and returns {:machine .. :settings .. :time .. :memory .. :start ..}, each part with :rows and :raw.

  Blocks for minutes; fails for a name that does not exist, and when a workload does.

  Example: (run quick)"
  [settings]
  (arguments/check "group" = (map :group comparisons) (:groups settings))
  {:machine (machine/facts)
   :settings settings
   :time (time-rows settings)
   :memory (when-not (:groups settings) (memory-rows settings))
   :start (when-not (:groups settings) (start-rows settings))})
