(ns magnetar.test.search
  "Many simulations of one program: seeds or all schedules, and the smallest schedule that still fails."
  {:no-doc true}
  (:require
   [magnetar.impl.errors :as errors]
   [magnetar.test.repeats :as repeats]
   [magnetar.test.runs :as runs]))

(set! *warn-on-reflection* true)

;; --- what counts as a failure

(defn- leaked [{:keys [left]}]
  (when-let [left (seq (filter :owned left))]
    {:kind :leaked-fiber :message "Fibers are left though the body has ended and nothing can run: who has to end them, or wait for them?" :waiting (vec left)}))

(defn- unhandled [{:keys [failures]}]
  (when-let [{:keys [site error]} (first failures)]
    {:kind :unhandled-exit :message (str site " ended with " error ", which nobody caught.") :error error}))

(defn- unanswered [{:keys [left]}]
  (when-let [left (seq (filter #(pos? (long (:calls %))) left))]
    {:kind :unanswered-call :message "A call is neither answered nor given up." :waiting (vec left)}))

(defn- overfull [bound {:keys [fullest]}]
  (when (< (long bound) (long (:messages fullest)))
    {:kind :mailbox-bound :message (str "The mailbox of " (:process fullest) " held " (:messages fullest) " messages; the bound is " bound ".")}))

(defn- property
  "A function of a run: what is wrong with it, or nil."
  [p]
  (cond
    (= :no-leaked-fiber p) leaked
    (= :no-unhandled-exit p) unhandled
    (= :every-call-answered p) unanswered
    (and (vector? p) (= :mailbox-bounded (first p)) (nat-int? (second p)) (= 2 (count p))) #(overfull (second p) %)
    (fn? p) (fn [run] (when-let [wrong (p run)] {:kind :property :message (str wrong)}))
    :else (throw (errors/illegal-argument :magnetar.test/unknown-property
                                          (str "`check` knows no property " (pr-str p) "; it knows :no-leaked-fiber, :no-unhandled-exit, "
                                               ":every-call-answered, [:mailbox-bounded n] and functions of a run.")
                                          {:property p}))))

(defn- of-body [{:keys [problem error value]}]
  (cond
    problem problem
    error {:kind :error :class (class error) :message (str "The body threw " error) :error error}
    (not value) {:kind :property :message (str "The property does not hold: it is " (pr-str value) ".")}))

(defn- failure-of
  "What is wrong with the run, or nil."
  [properties run]
  (or (of-body run) (some #(% run) properties)))

(defn- same? [a b]
  (= (select-keys a [:kind :class]) (select-keys b [:kind :class])))

;; --- shrinking

(def ^:private most-attempts 500)

(def ^:private most-steps 20000000)

(defn- attempts-worth
  "How many runs it is worth to make the failure of the run smaller: fewer if they are long, none if each leaves a thread behind."
  [failure run]
  (if (= :stuck (:kind failure))
    0
    (-> (quot (long most-steps) (inc (long (:steps run)))) (max 5) (min (long most-attempts)))))

(defn- without [schedule from size]
  (into (subvec schedule 0 from) (subvec schedule (min (count schedule) (+ (long from) (long size))))))

(defn- smaller
  "The first way to drop `size` choices that still fails, as the run, or nil."
  [{:keys [schedule]} size fails-with attempts]
  (loop [from 0]
    (when (and (< from (count schedule)) (pos? (long @attempts)))
      (vreset! attempts (dec (long @attempts)))
      (or (fails-with (without schedule from size)) (recur (+ from (long size)))))))

(defn shrink
  "The run with the fewest choices found, in so many attempts, that fails in the same way; `try-schedule` gives the run of a schedule if it does."
  [run try-schedule most]
  (let [attempts (volatile! most)]
    (loop [best (or (when (pos? (long most)) (try-schedule (:schedule run))) run)
           size (max 1 (quot (count (:schedule run)) 2))]
      (let [next (smaller best size try-schedule attempts)]
        (cond
          (and next (< (count (:schedule next)) (count (:schedule best)))) (recur next (max 1 (min size (quot (count (:schedule next)) 2))))
          (= 1 size) best
          :else (recur best (quot size 2)))))))

;; --- searching

(defn- run-of [options body more]
  (runs/run (merge {:grace-ms 0} options more) body))

(defn- unrepeatable
  "The failure that the run, done again, is another one; nil if it is the same."
  [run run-once]
  (when-let [unlike (repeats/unlike run run-once)]
    {:kind :unrepeatable :message (repeats/sentence (:seed run) unlike) :event (:event unlike) :first (:first unlike) :again (:again unlike)}))

(defn- tried
  "The n-th run of a search, and what is wrong with it: [run failure]. A sampled run that is right is done again."
  [{:keys [sampled] :as options} body failure-of n more]
  (let [twice? (contains? sampled n)
        run-once #(run-of options body (cond-> more twice? (assoc :log :lines)))
        run (run-once)]
    [run (or (failure-of run) (when (and twice? (repeats/short-enough? run)) (unrepeatable run run-once)))]))

(defn- portfolio
  "What the n-th run is done with: uniform choice and priorities of several depths in turn."
  [{:keys [strategy seed] :as options} n steps]
  (let [seed (+ (long (or seed 0)) (long n))
        depth (or (:depth options) (inc (rem (quot (long n) 2) 3)))]
    (cond
      strategy {:seed seed :depth depth :length (:length options steps)}
      (even? (long n)) {:seed seed :strategy :uniform}
      :else {:seed seed :strategy :priorities :depth depth :length steps})))

(defn- seeds
  "Searches seeds: {:runs n}, with :failure and :run if one fails."
  [{:keys [runs] :as options} body failure-of]
  (loop [n 0
         steps 100]
    (if (= n (long runs))
      {:runs n}
      (let [[run failure] (tried options body failure-of n (portfolio options n steps))]
        (if failure
          {:runs (inc n) :failure failure :run run}
          (recur (inc n) (max steps (long (:steps run)))))))))

(defn- cost [schedule]
  (count (remove #(= :prefer (:what %)) schedule)))

;; Schedules by cost and length. What is popped costs no more than what it leads to, so of those that stand behind as many as there are runs
;; left none will ever be tried, and none is kept: a program of a thousand steps has millions of them.
(def ^:private no-schedules
  {:by-cost (sorted-map) :size 0 :all? true})

(defn- pop-from [{:keys [by-cost] :as queue} k]
  (let [schedules (by-cost k)]
    (-> queue
        (update :size dec)
        (assoc :by-cost (if (next schedules) (assoc by-cost k (pop schedules)) (dissoc by-cost k))))))

(defn- pop-first [{:keys [by-cost] :as queue}]
  (let [[k schedules] (first by-cost)]
    [(peek schedules) (pop-from queue k)]))

(defn- bounded [{:keys [by-cost size] :as queue} most]
  (if (< (long most) (long size))
    (assoc (pop-from queue (key (first (rseq by-cost)))) :all? false)
    queue))

(defn- push [queue most bound schedules]
  (reduce (fn [queue s]
            (let [c (cost s)]
              (if (<= (long c) (long bound))
                (-> queue (update-in [:by-cost [c (count s)]] (fnil conj []) s) (update :size inc) (bounded most))
                queue)))
          queue
          schedules))

(defn- all-schedules
  "Tries all schedules with up to :preemptions preemptions and faults, those with the fewest first: {:runs n :exhausted all-tried?}, and :failure."
  [{:keys [runs preemptions seed] :as options} body failure-of]
  (loop [n 0
         queue (push no-schedules 1 0 [[]])]
    (if (or (zero? (long (:size queue))) (= n (long runs)))
      {:runs n :exhausted (and (:all? queue) (zero? (long (:size queue))))}
      (let [[schedule queue] (pop-first queue)
            [run failure] (tried options body failure-of n {:seed (or seed 0) :schedule schedule})]
        (if failure
          {:runs (inc n) :failure failure :run run}
          (recur (inc n) (push queue (- (long runs) n 1) (or preemptions 2) (map #(conj schedule %) @(:branches run)))))))))

(defn- shrunk [options body failure-of {:keys [failure run]}]
  (let [seed (:seed run)
        options (dissoc options :strategy)]
    (shrink run
            (fn [schedule]
              (let [again (run-of options body {:seed seed :schedule schedule})
                    found (failure-of again)]
                (when (and found (same? failure found)) again)))
            (attempts-worth failure run))))

(def ^:private most-retries 300)

(defn- simpler
  "A failing run of fewer preemptions than the schedule has, from a search over the smallest ones, or nil."
  [options body failure-of {:keys [failure run]} schedule]
  (let [fewer (dec (long (cost schedule)))
        same #(when-let [found (failure-of %)] (when (same? failure found) found))
        retries (min (long most-retries) (long (attempts-worth failure run)))]
    (when (and (< 0 fewer 3) (pos? retries))
      (:run (all-schedules (assoc options :seed (:seed run) :runs retries :preemptions fewer :sampled #{}) body same)))))

(defn- with-log [options body failure-of {:keys [runs run] :as found}]
  (let [small (shrunk options body failure-of found)
        small (or (simpler options body failure-of found (:schedule small)) small)
        logged (run-of options body {:seed (:seed run) :schedule (:schedule small) :log true :grace-ms 50})
        again (failure-of logged)]
    {:runs runs
     :failure (or again (:failure found))
     :repeatable (boolean (and again (same? again (:failure found))))
     :seed (:seed run)
     :found (count (:schedule run))
     :schedule (:schedule small)
     :run logged}))

(defn- as-it-was
  "What is told about a run that differs when it is done again: nothing is made smaller, since no schedule fails for sure."
  [options body {:keys [runs failure run]}]
  (let [{:keys [seed schedule]} run]
    {:runs runs
     :failure failure
     :repeatable false
     :seed seed
     :found (count schedule)
     :schedule schedule
     :run (run-of (dissoc options :strategy) body {:seed seed :schedule schedule :log true})}))

(defn search
  "Runs the body again and again: {:runs n}, and if a run fails :failure, :seed, :found (how many choices that run made), :schedule and :run, with its
  log, of the smallest one found. A sample of the runs is done twice; one that differs is a failure of kind :unrepeatable."
  [{:keys [properties strategy runs repeats] :as options} body]
  (let [options (assoc options :sampled (repeats/sampled (or repeats repeats/default-repeats) runs))
        checks (mapv property (or properties [:no-unhandled-exit]))
        failure-of #(failure-of checks %)
        through (if (= :exhaustive strategy) all-schedules seeds)]
    (runs/together
      (fn []
        (let [found (through options body failure-of)]
          (cond
            (= :unrepeatable (:kind (:failure found))) (as-it-was options body found)
            (:failure found) (with-log options body failure-of found)
            :else found))))))
