(ns magnetar.test.repeats
  "Is a run the same when it is done again? Compares the logs of two runs, line by line.

  The first of them may have filled a cache (a memoized function, a delay, a namespace that is loaded) that the second finds full.
  Such a difference goes away, so a pair that differs is followed by more runs. Only runs that go on to differ are reported."
  {:no-doc true})

(set! *warn-on-reflection* true)

(def default-repeats
  "How many runs of a search are done twice."
  5)

(def ^:private share
  "A search repeats one run of so many at most."
  20)

(defn sampled
  "The indices of the runs of a search that are done twice: `repeats` of them at most, the first run among them.

  They lie close together at first and far apart later, since an exhaustive search may end long before it has done `runs` of them."
  [repeats runs]
  (let [n (min (long repeats) (inc (quot (long runs) (long share))))]
    (into #{}
          (map #(dec (long (Math/pow (double runs) (/ (double %) (double n))))))
          (range n))))

(def ^:private longest
  "Up to how many switch points a run is done again: two logs are kept meanwhile."
  200000)

(defn short-enough?
  "Is the run short enough to be done again?"
  [{:keys [steps]}]
  (<= (long steps) (long longest)))

(defn- outcome [{:keys [problem error value steps]}]
  (str "ends after " steps " switch points, "
       (cond
         problem (str "stopped: " (:message problem))
         error (str "and the body has thrown " (class error))
         :else (str "and the body has returned " (if value "what is true" (pr-str value))))))

(defn- lines [{:keys [log-text] :as run}]
  (conj (vec log-text) (outcome run)))

(defn- difference
  "The first line at which the logs of two runs differ, or nil: its number, and both lines."
  [one other]
  (let [[one other] [(lines one) (lines other)]]
    (first (keep (fn [n]
                   (let [[a b] [(nth one n) (nth other n)]]
                     (when (not= a b) {:event (inc (long n)) :first a :again b})))
                 (range (min (count one) (count other)))))))

(def ^:private confirmations
  "How many runs more have to be like the second for the first to count as the one that filled a cache."
  4)

(defn- settles? [again run-once]
  (every? (fn [_] (nil? (difference again (run-once)))) (range confirmations)))

(defn unlike
  "The first difference between a run with a log and one that `run-once` does, or nil; what only the first run did does not count."
  [run run-once]
  (let [again (run-once)]
    (when-let [found (difference run again)]
      (when-not (settles? again run-once)
        (assoc found :run again)))))

(def ^:private causes
  (str "  Something in the body is decided by no seed: rand, rand-int, shuffle or random-uuid; System/nanoTime or currentTimeMillis; the order of a"
       " set or a map whose keys are objects without an equals of their own, as channels and functions; or what an earlier run has left in an atom.\n"
       "  Draw from (java.util.Random. 42), made in the body, read the time with (magnetar.test/now), keep such objects in a vector, and make all"
       " state in the body. {:repeats 0} runs nothing twice."))

(defn sentence
  "What is wrong with a body of which two runs with this seed differ."
  [seed {:keys [event again] first-time :first}]
  (str "Two runs with seed " seed " differ, so no run of this body can be replayed. The first difference is event " event ":\n"
       "    the first time  " first-time "\n"
       "    then            " again "\n"
       causes))
