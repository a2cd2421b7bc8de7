(ns magnetar.impl.breaker
  "A circuit breaker as a value: {:state :since :epoch :results :trials}, and what a call that begins and a call that ends make of it.

  An epoch lasts as long as a state. What a call of an earlier epoch comes to does not count."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.outcomes :as outcomes]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.time Durations)))

(set! *warn-on-reflection* true)

(def closed
  "A breaker that has seen no call."
  {:state :closed :epoch 0 :since 0 :results [] :trials 0})

(defn- turned
  "The breaker in a new state."
  [breaker state at]
  (-> (select-keys breaker [:epoch])
      (update :epoch inc)
      (assoc :state state :since at :results [] :trials 0)))

(defn admit
  "The breaker after a call has asked to pass; :pass? says whether it may."
  [{:keys [state ^long since trials] :as breaker} {:keys [delay success-threshold]} ^long at]
  (cond
    (= :closed state) (assoc breaker :pass? true)
    (and (= :open state) (< (- at since) (long delay))) (assoc breaker :pass? false)
    (= :open state) (assoc (turned breaker :half-open at) :trials 1 :pass? true)
    :else (let [pass? (< (+ (long trials) (count (:results breaker))) (long success-threshold))]
            (cond-> (assoc breaker :pass? pass?)
              pass? (update :trials inc)))))

(defn- record-closed [{:keys [results] :as breaker} {:keys [failure-threshold]} good? at]
  (let [[limit window] failure-threshold
        results (vec (take-last window (conj results good?)))]
    (if (<= (long limit) (count (remove true? results)))
      (turned breaker :open at)
      (assoc breaker :results results))))

(defn- record-half-open [{:keys [results] :as breaker} {:keys [success-threshold]} good? at]
  (let [breaker (-> breaker (update :trials dec) (update :results conj good?))]
    (cond
      (not good?) (turned breaker :open at)
      (<= (long success-threshold) (inc (count results))) (turned breaker :closed at)
      :else breaker)))

(defn record
  "The breaker after a call that it let pass in this epoch has ended; good? is nil for one that was cancelled."
  [{:keys [state] :as breaker} how epoch good? at]
  (cond
    (not= epoch (:epoch breaker)) breaker
    (nil? good?) (cond-> breaker (= :half-open state) (update :trials dec))
    (= :closed state) (record-closed breaker how good? at)
    :else (record-half-open breaker how good? at)))

(defn half-open
  "The open breaker once its delay is over."
  [breaker at]
  (turned breaker :half-open at))

(defn failures
  "How many of the calls that count have failed."
  [{:keys [results]}]
  (count (remove true? results)))

;; ---- options

(defn failing
  "The predicate that an option stands for: nil, a class, a predicate, or several of them."
  [option]
  (cond
    (nil? option) #(instance? Exception %)
    (class? option) #(instance? option %)
    (coll? option) (let [predicates (mapv failing option)] (fn [error] (some #(% error) predicates)))
    (ifn? option) option
    :else (arguments/misuse :magnetar/bad-option (str "What counts as a failure is a class, a predicate or several; this is " (arguments/show option) ".")
            {:value option})))

(defn- threshold [option]
  (let [[limit window :as pair] (if (vector? option) option [option option])]
    (when-not (and (= 2 (count pair)) (every? pos-int? pair) (<= (long limit) (long window)))
      (arguments/misuse :magnetar/bad-option
                        (str (arguments/subject :failure-threshold) " a whole number from 1 up, or [failures calls] with failures no more than calls; this is "
                             (arguments/show option) ".")
                        {:failure-threshold option}))
    pair))

(defn options
  "The options of a breaker, checked, with their defaults."
  [{:keys [failure-threshold success-threshold delay fail-on] :or {delay 30000}}]
  {:failure-threshold (threshold (or failure-threshold 5))
   :success-threshold (arguments/whole :success-threshold (or success-threshold 1))
   :delay (arguments/nanos :delay delay)
   :fail-on (failing fail-on)})

;; ---- what a call comes to

(defn judged
  "What the predicate says of the error; `otherwise` if it throws, which the error then carries."
  [predicate ^Throwable error otherwise]
  (try
    (predicate error)
    (catch Exception e
      (.addSuppressed error e)
      otherwise)))

(defn good?
  "Whether the call was one that counts as good; nil if it does not count."
  [fail-on error]
  (cond
    (nil? error) true
    (outcomes/cancellation? error) nil
    :else (not (judged fail-on error true))))

(defn- time-closed
  "The milliseconds until an open breaker lets a trial pass; nil for never, 0 if trials are under way."
  [{:keys [state since]} delay at]
  (cond
    (not= :open state) 0
    (= Durations/INFINITE delay) nil
    :else (clock/millis (max 0 (- (long delay) (- (long at) (long since)))))))

(defn refusal
  "The error of a call that may not pass."
  [{:keys [state] :as breaker} {:keys [delay]} at]
  (let [left (time-closed breaker delay at)]
    (ex-info (str "The circuit breaker is " (name state) ": the call was refused"
                  (cond
                    (nil? left) ", and so will be all others."
                    (pos? (long left)) (str ". Calls are tried again in " left " ms.")
                    :else ", other calls are on trial."))
             {:magnetar/reason :magnetar/circuit-open :state state :retry-after-ms left})))

(defn look
  "What a breaker shows of itself."
  [{:keys [state results trials] :as breaker}]
  {:state state :calls (count results) :failures (failures breaker) :trials trials})
